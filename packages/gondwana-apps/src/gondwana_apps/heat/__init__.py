"""Heat conduction in a box that radiates, by message passing and by one-sided copies."""
