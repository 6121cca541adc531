"""An emulated GPU: PTX is executed on the processor, so that GPU programs can be tested without a GPU."""

__version__ = "0.1.0"
