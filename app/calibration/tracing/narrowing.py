"""Autocast by hand, for the meta device has none: products are in 16 bit, a 32-bit weight is narrowed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class _Narrowing:
    """Whether products are narrowed now, and the weights that were."""

    def __init__(self) -> None:
        self.on = False
        self.weights: dict[Any, Any] = {}


_NOW = _Narrowing()


@contextmanager
def narrowing(*, wanted: bool) -> Iterator[None]:
    """Products are in 16 bit here, recomputed ones too; narrowed weights are let go at the end of the outermost."""
    if not wanted or _NOW.on:
        yield
        return
    _NOW.on = True
    try:
        yield
    finally:
        _NOW.on = False
        _NOW.weights.clear()


def narrow(tensor: Any) -> Any:
    """A tensor as a product takes it."""
    if not _NOW.on or tensor is None or tensor.dtype is not torch.float32:
        return tensor
    if not (isinstance(tensor, nn.Parameter) and tensor.requires_grad):
        return tensor.to(torch.bfloat16)
    if tensor not in _NOW.weights:
        _NOW.weights[tensor] = tensor.to(torch.bfloat16)
    return _NOW.weights[tensor]


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """A matrix's product."""
    return functional.linear(narrow(x), narrow(weight), narrow(bias))


def batched(x: Any, weight: Any, shape: tuple[int, int, int]) -> Any:
    """A product per expert, of matrices that lie end to end."""
    return torch.bmm(narrow(x), narrow(weight).view(shape).mT)
