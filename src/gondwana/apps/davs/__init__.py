"""DAVS: clustering of peaks by deterministic annealing, with a sponge for what belongs to no cluster."""
