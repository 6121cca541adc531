"""MG: a multigrid V-cycle for Poisson's equation on a periodic cube (NPB 3.4; NAS-91-002, section 2.2)."""
