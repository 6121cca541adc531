"""The costs of a rank before it computes anything: its start, its memory, its descriptors."""
