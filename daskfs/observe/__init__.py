"""What a person sees of the work: progress, descriptions, the report, the tab in the dashboard and metrics."""
