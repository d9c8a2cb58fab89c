"""Peak memory of training as PyTorch keeps it: a step on fake tensors, every storage counted while it lives.

`setups`, `shapes`, `rows`, `requests`, `caching` and `comparison` need no PyTorch; the rest is imported where it is
installed, as the extra `trace` does.
"""
