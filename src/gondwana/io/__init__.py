"""Datasets, checkpoints and what must be known to read them again."""
