"""What a rank costs before it computes anything: its start, its memory, its descriptors."""
