"""A cluster on one machine: hosts made of namespaces, and Debian's Slurm on them."""
