"""``gondwana doctor``: what this machine has for parallel runs, tried rather than guessed."""
