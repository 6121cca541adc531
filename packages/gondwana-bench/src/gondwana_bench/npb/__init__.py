"""`gondwana bench npb`: the NAS benchmarks beside the official programs."""
