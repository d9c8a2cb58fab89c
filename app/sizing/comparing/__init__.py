"""Answers side by side: what differs between them, what causes it, and what each costs as the months go by."""
