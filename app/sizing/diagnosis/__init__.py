"""Findings: what was observed of a running job or service beside what the core expects of its hardware."""
