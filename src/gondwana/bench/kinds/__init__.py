"""`gondwana bench kinds`: how fast memories of the host and of devices are reached."""
