"""Optimizers by implementation: the states of each, and the temporaries of its step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from calibration.tracing.setups import Setup

EIGHT_BIT_BLOCK, EIGHT_BIT_FROM_ELEMENTS = 256, 4096
# Moments that an optimizer keeps per parameter.
MOMENTS_HELD = {"adamw": 2, "lion": 1, "sgd": 1, "adamw-8bit": 2}


def local_of(tensor: Any) -> Any:
    """The shard of a tensor on this rank; the tensor itself if it is not sharded."""
    return getattr(tensor, "_local_tensor", tensor)


class Foreach:
    """PyTorch's AdamW over lists, on the shards of this rank."""

    def __init__(self, params: Iterable[Any]) -> None:
        self.params = list(params)
        self.parts = [nn.Parameter(local_of(p).detach()) for p in self.params]
        self.own = torch.optim.AdamW(self.parts, foreach=True)

    def step(self) -> None:
        for p, part in zip(self.params, self.parts, strict=True):
            part.grad = None if p.grad is None else local_of(p.grad)
        self.own.step()
        for part in self.parts:
            part.grad = None


class InPlace:
    """An optimizer in one kernel: states per parameter, no temporaries; `on_device` is False for offloaded states."""

    def __init__(self, params: Iterable[Any], setup: Setup) -> None:
        self.params = list(params)
        self.setup = setup
        self.on_device = not setup.optimizer_offload and setup.optimizer_implementation not in ("paged", "offloaded")
        self.states: dict[Any, list[Any]] = {}

    def step(self) -> None:
        for p in self.params:
            if p.grad is not None:
                self.step_one(p)

    def step_one(self, p: Any) -> None:
        if p not in self.states:
            self.states[p] = self._states_of(p) if self.on_device else []

    def _states_of(self, p: Any) -> list[Any]:
        local = local_of(p)
        count = MOMENTS_HELD[self.setup.optimizer]
        master = self.setup.weights == "master" and not self.setup.frozen
        if self.setup.optimizer == "adamw-8bit" and local.numel() >= EIGHT_BIT_FROM_ELEMENTS:
            blocks = -(-local.numel() // EIGHT_BIT_BLOCK)
            narrow = [torch.empty(local.numel(), dtype=torch.uint8) for _ in range(count)]
            narrow += [torch.empty(blocks, dtype=torch.float32) for _ in range(count)]
            return narrow + ([torch.empty_like(local, dtype=torch.float32)] if master else [])
        wide = self.setup.weights == "master" or self.setup.optimizer == "adamw-8bit"
        dtype = torch.float32 if wide else local.dtype
        return [torch.empty_like(local, dtype=dtype) for _ in range(count + master)]


class Adafactor(InPlace):
    """Adafactor without a first moment, one matrix at a time in FP32, as in Transformers."""

    def _states_of(self, p: Any) -> list[Any]:
        local = local_of(p)
        if local.dim() < 2:
            return [torch.empty_like(local, dtype=torch.float32)]
        shapes = local.shape[:-1], local.shape[:-2] + local.shape[-1:]
        return [torch.empty(shape, dtype=torch.float32) for shape in shapes]

    def step_one(self, p: Any) -> None:
        super().step_one(p)
        local, grad = local_of(p).detach(), local_of(p.grad)
        grad = grad.to(torch.float32)
        wide = local.to(torch.float32)
        update = grad**2 + 1e-30
        if local.dim() >= 2:
            row, column = self.states[p]
            row.mul_(0.9).add_(update.mean(dim=-1))
            column.mul_(0.9).add_(update.mean(dim=-2))
            rows = (row / row.mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1)
            update = torch.mul(rows, column.unsqueeze(-2).rsqrt())
        else:
            update = update.rsqrt()
        update.mul_(grad)
        wide.add_(-update)
        if local.dtype is not torch.float32:
            local.copy_(wide)


def optimizer_of(params: list[Any], setup: Setup) -> Any:
    """The optimizer of a setup over these parameters."""
    if setup.optimizer == "adafactor":
        return Adafactor(params, setup)
    if setup.optimizer == "adamw" and setup.optimizer_implementation == "foreach" and setup.weights != "master":
        return Foreach(params)
    return InPlace(params, setup)


def step_in_backward(params: list[Any], optimizer: InPlace) -> None:
    """Steps each parameter when its gradient is complete, and frees the gradient."""
    step: Callable[[Any], None] = optimizer.step_one

    def step_parameter(p: Any) -> None:
        step(p)
        p.grad = None

    for p in params:
        p.register_post_accumulate_grad_hook(step_parameter)
