"""Python values in compiled code: points, views of arrays, handles, and the way in which arguments are passed."""
