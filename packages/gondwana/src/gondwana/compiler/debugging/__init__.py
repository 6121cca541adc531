"""Help to find mistakes in compiled functions: readable errors, checks of bounds, `print`, the interpreter."""
