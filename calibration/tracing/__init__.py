"""Traces the peak memory of training in PyTorch: runs one step on fake tensors and counts every live storage.

`setups`, `shapes`, `rows`, `requests`, `caching` and `report` need no PyTorch. The other modules need the extra
`trace`.
"""
