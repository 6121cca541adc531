"""`gondwana bench kinds`: the speed of copies between memories of the host and of devices."""
