"""Conversations with a buyer's systems: punch-out sessions and signed notices of what happened."""
