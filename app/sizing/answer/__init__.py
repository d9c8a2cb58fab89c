"""Gathers what the formulas returned and words it; computes nothing of its own."""
