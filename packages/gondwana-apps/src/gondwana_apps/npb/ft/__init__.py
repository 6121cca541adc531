"""FT: diffusion in a periodic box, solved by three-dimensional Fourier transforms."""
