"""`gondwana bench ping-pong`, `ring` and `osu`: messages and sums by the procedures of published studies."""
