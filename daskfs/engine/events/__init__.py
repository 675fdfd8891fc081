"""Reporting of a selection run: events for the dashboard, the timer of tasks, and the sender of the driver."""
