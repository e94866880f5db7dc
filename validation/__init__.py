"""Experiments and benchmarks that show what the library computes and how fast."""
