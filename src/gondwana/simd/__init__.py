"""Explicit vectors in compiled code: several numbers at a time, for loops that the compiler does not vectorise."""
