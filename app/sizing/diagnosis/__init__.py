"""Findings: compare observations of a running job or service with the expectation for its hardware."""
