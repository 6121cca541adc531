"""The command ``gondwana``: launching, looking at data, measuring."""
