"""Tasks of a thread whose order is recorded or repeated."""
