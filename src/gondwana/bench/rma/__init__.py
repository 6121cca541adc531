"""`gondwana bench rma`: how fast ranks of a node reach each other's memory."""
