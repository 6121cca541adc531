"""Programs in C to compare our kernels and exchanges with; `gondwana.bench.build` compiles them."""
