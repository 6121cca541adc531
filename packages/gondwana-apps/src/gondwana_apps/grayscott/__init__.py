"""Gray-Scott reaction-diffusion in a cube: settings, kernels, run."""
