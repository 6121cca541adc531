"""The clustering applications: speed-up over threads, ranks and nodes, beside scikit-learn on the same data."""
