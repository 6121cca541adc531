"""`gondwana bench rma`: the speed of one-sided communication on a node."""
