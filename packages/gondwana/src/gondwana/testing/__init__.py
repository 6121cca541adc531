"""Tools for testing programs that use Gondwana. Import the module that you need; each names what it requires."""
