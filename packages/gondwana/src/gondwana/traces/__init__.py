"""Traces of whole jobs: the parts that ranks have recorded, as one file for viewers of the trace event format."""
