"""Counts of a model from its configuration file. `read.py` is the entry point."""
