"""Benchmarks: `python -m validation.benchmarks.NAME`."""
