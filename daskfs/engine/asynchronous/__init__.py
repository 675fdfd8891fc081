"""The asynchronous schedule: a centre owns the state, workers send it offers and never wait for each other."""
