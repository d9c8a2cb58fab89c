"""Matrices of a model: trained, frozen, in 4 bit, and with adapters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from calibration.tracing.narrowing import linear_product
from calibration.tracing.setups import Setup
from calibration.tracing.stand_ins import dropout_stand_in, nf4_product

# NF4: elements per byte, elements per one-byte scale, and scales per FP32 scale of scales.
NF4_PER_BYTE, NF4_BLOCK, NF4_SCALE_BLOCK = 2, 64, 256
TARGETS = {
    "all-linear": ("q", "k", "v", "qkv", "o", "gate", "up", "down"),
    "attention": ("q", "k", "v", "qkv", "o"),
    "q_v": ("q", "v", "qkv"),
}


class Linear(nn.Module):
    """A matrix with an optional bias."""

    def __init__(self, inputs: int, outputs: int, dtype: Any, *, bias: bool = False, trained: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, dtype=dtype), requires_grad=trained)
        self.bias = nn.Parameter(torch.empty(outputs, dtype=dtype), requires_grad=trained) if bias else None

    def forward(self, x: Any) -> Any:
        return linear_product(x, self.weight, self.bias)


class Nf4Linear(nn.Module):
    """A frozen matrix in NF4 with double quantization; computes in BF16 and returns the data type of its input."""

    def __init__(self, inputs: int, outputs: int, dtype: Any, *, bias: bool = False) -> None:
        super().__init__()
        count = inputs * outputs
        self.shape = (outputs, inputs)
        self.packed = nn.Parameter(torch.empty(count // NF4_PER_BYTE, 1, dtype=torch.uint8), requires_grad=False)
        self.scales = torch.empty(count // NF4_BLOCK, dtype=torch.uint8)
        self.scales_of_scales = torch.empty(max(1, count // NF4_BLOCK // NF4_SCALE_BLOCK), dtype=torch.float32)
        self.bias = nn.Parameter(torch.empty(outputs, dtype=dtype), requires_grad=False) if bias else None

    def forward(self, x: Any) -> Any:
        out = nf4_product(x.to(torch.bfloat16), self.packed, self.shape)
        return (out if self.bias is None else out + self.bias).to(x.dtype)


class Adapted(nn.Module):
    """A frozen matrix with a low-rank adapter: its input is cast, passed through dropout and multiplied twice."""

    def __init__(self, base: Any, inputs: int, outputs: int, setup: Setup) -> None:
        super().__init__()
        wide = setup.adapter_precision != "16bit"
        self.dtype = torch.float32 if wide else torch.bfloat16
        self.base, self.drops = base, setup.adapter_dropout
        self.down = nn.Parameter(torch.empty(setup.adapter_rank, inputs, dtype=self.dtype))
        self.up = nn.Parameter(torch.empty(outputs, setup.adapter_rank, dtype=self.dtype))

    def forward(self, x: Any) -> Any:
        out = self.base(x)
        own = x.to(self.dtype)
        if self.drops:
            own = dropout_stand_in(own)
        added = linear_product(linear_product(own, self.down), self.up) * 2.0
        return (out + added).to(out.dtype)


def make_matrix(name: str, inputs: int, outputs: int, setup: Setup, dtype: Any, *, bias: bool = False) -> Any:
    """The named matrix of a layer, as the training method has it."""
    if not setup.frozen:
        return Linear(inputs, outputs, dtype, bias=bias)
    if setup.method == "qlora":
        base: Any = Nf4Linear(inputs, outputs, torch.bfloat16, bias=bias)
    else:
        base = Linear(inputs, outputs, torch.bfloat16, bias=bias, trained=False)
    return Adapted(base, inputs, outputs, setup) if name in TARGETS[setup.adapter_targets] else base
