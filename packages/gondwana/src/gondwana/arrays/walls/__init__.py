"""Walls: what the ghosts of a global array outside of its domain hold, and how an exchange fills them."""
