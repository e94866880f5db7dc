"""Attacks on the package with random cases, and independent truth to compare with."""
