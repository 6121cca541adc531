"""`gondwana bench gpu`: the speed of Gray-Scott steps on a GPU, beside CUDA C."""
