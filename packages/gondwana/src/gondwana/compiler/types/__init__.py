"""How Python values look to compiled code: points, views of arrays, handles, and how they get there as arguments."""
