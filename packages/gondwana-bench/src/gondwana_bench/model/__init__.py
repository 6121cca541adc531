"""A model of how long a time step of the applications takes on a machine: LogGP, shared bandwidth and noise."""
