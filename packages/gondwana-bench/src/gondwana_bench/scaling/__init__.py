"""Scaling of applications with the number of ranks, and the picture of it."""
