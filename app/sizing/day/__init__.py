"""A day of a service: its load minute by minute, the fleet that follows it, and the resulting time and cost."""
