"""The instructions of PTX, each as a function that writes code for it: arithmetic, bits, conversions, memory, waits."""
