"""Help for testing programs that stand on Gondwana. Import the module that you need; each names what it requires."""
