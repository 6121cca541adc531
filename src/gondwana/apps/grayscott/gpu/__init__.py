"""How fast a GPU does Gray-Scott steps, beside CUDA C: a part of `gondwana bench gpu`."""
