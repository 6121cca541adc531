"""The command ``gondwana``: launching programs, showing data, measuring."""
