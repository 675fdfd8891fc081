"""What a person sees of the work: progress, descriptions, later the dashboard and the report."""
