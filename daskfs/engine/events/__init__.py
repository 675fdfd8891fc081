"""How a run reports what it does: events, the clock of a task, the listener of a run."""
