"""Measurements of one GPU without an engine, and their comparison with predictions."""
