"""Manual autocast, because the meta device has none: products are in BF16, and each FP32 weight is cast once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class _Narrowing:
    """Whether products are cast now, and the casts of weights."""

    def __init__(self) -> None:
        self.on = False
        self.weights: dict[Any, Any] = {}


_NOW = _Narrowing()


@contextmanager
def manual_autocast(*, wanted: bool) -> Iterator[None]:
    """Casts products to BF16 inside the context, also in recomputation; the outermost context frees the casts."""
    if not wanted or _NOW.on:
        yield
        return
    _NOW.on = True
    try:
        yield
    finally:
        _NOW.on = False
        _NOW.weights.clear()


def cast_operand(tensor: Any) -> Any:
    """A tensor in the data type of the product."""
    if not _NOW.on or tensor is None or tensor.dtype is not torch.float32:
        return tensor
    if not (isinstance(tensor, nn.Parameter) and tensor.requires_grad):
        return tensor.to(torch.bfloat16)
    if tensor not in _NOW.weights:
        _NOW.weights[tensor] = tensor.to(torch.bfloat16)
    return _NOW.weights[tensor]


def linear_product(x: Any, weight: Any, bias: Any = None) -> Any:
    """Product with a matrix, with an optional bias."""
    return functional.linear(cast_operand(x), cast_operand(weight), cast_operand(bias))


def batched_product(x: Any, weight: Any, shape: tuple[int, int, int]) -> Any:
    """One product per expert, with matrices that are stored as one tensor."""
    return torch.bmm(cast_operand(x), cast_operand(weight).view(shape).mT)
