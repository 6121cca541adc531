"""Which cores the threads of a rank run on: the cores of a host, their distribution, and its report."""
