"""The regularity and the speed of one-sided and two-sided time steps."""
