"""The programs in C that our kernels and exchanges are compared with; `gondwana.bench.build` compiles them."""
