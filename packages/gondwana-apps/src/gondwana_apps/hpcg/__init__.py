"""HPCG 3.1: conjugate gradients with a multigrid preconditioner, the benchmark beside LINPACK."""
