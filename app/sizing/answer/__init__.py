"""Builds answers: turns the results of the formulas into estimates and sentences, and computes nothing of its own."""
