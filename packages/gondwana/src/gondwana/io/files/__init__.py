"""Files of one's own: `gw.save` and `gw.load`, and one module for each format, which alone imports its library.

`save_and_load` has the two functions, `contents` describes what a file holds, whatever its format.
"""
