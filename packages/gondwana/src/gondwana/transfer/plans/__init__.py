"""Plans: copies between any ranks that are made together, again and again, with a handshake of their owners."""
