"""Poisson's equation on a square by Jacobi's method."""
