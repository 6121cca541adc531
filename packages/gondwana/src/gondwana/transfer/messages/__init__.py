"""Messages between ranks under one name for Python and for compiled code."""
