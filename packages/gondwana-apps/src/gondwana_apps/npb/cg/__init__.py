"""CG: the largest eigenvalue of a random sparse matrix, by inverse iteration with conjugate gradients (NAS-91-002)."""
