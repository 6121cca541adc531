"""Recursive calls, and tasks that make them, beside C and Python."""
