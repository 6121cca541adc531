"""What compiled code can do with teams, pointers and signals: overloads that are imported to compile, never to run."""
