"""How fast blocks of all ranks are written and read, beside plain ADIOS2."""
