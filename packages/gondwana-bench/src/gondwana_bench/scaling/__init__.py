"""How applications scale with the number of ranks, and the picture of it."""
