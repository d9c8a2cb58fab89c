"""A day of a service: its load minute by minute, what follows it, and what that takes in time and money."""
