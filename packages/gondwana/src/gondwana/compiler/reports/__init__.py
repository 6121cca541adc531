"""What compiled code reports to the race detector: what it orders, and the elements that it accesses."""
