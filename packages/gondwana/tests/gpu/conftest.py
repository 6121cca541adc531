from support.on_a_gpu import gpu as gpu, pytest_runtest_setup as pytest_runtest_setup
