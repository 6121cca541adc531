"""`gondwana bench gpu`: how fast a GPU does Gray-Scott steps, beside CUDA C."""
