"""Which cores the threads of a rank run on: what a host has, who gets what, and how it is reported."""
