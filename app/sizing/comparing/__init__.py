"""Compares answers: what differs between them, why, and what each option costs month by month."""
