"""Prefill and decode in pools of their own: each judged as a service of its part, and the cache sent between them."""
