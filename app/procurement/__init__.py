"""Connects buyers' procurement systems: punch-out sessions and signed webhooks."""
