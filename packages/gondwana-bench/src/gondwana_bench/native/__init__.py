"""Programs in C to compare our kernels and exchanges with; `gondwana_bench.build` compiles them."""
