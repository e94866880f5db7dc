"""Adapters to packages that others wrote, each one a solver with its declared capabilities."""
