"""The live view of a job: a page that shows how far it is, what its ranks do, and slices of its fields."""
