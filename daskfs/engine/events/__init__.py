"""How a run reports its progress: event messages, the clock of a task, the listener of a run, progress counters."""
