"""A decoder of a given shape: embedding, layers with their recomputation, norm, head."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from calibration.tracing.blocks import Layer, Norm, norm_dtype
from calibration.tracing.matrices import Linear
from calibration.tracing.narrowing import manual_autocast
from calibration.tracing.setups import Setup
from calibration.tracing.stand_ins import FLASH

MATRICES = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
OFFLOADED_FROM_ELEMENTS = 1024


def selective_contexts(setup: Setup) -> Any:
    """Checkpoint contexts that keep the outputs of attention and of every second matrix, and recompute the rest.

    Grouped products of experts and products of adapters are recomputed too.
    """
    of_attention = torch.ops.aten.bmm.default if setup.attention == "eager" else FLASH.default
    seen = {False: 0, True: 0}

    def choose_policy(ctx: Any, func: Any, *args: Any, **_: Any) -> Any:
        if func in MATRICES and setup.frozen and setup.adapter_rank in (args[-2].shape[-1], args[-1].shape[-1]):
            keep = False
        elif func in MATRICES:
            seen[ctx.is_recompute] += 1
            keep = seen[ctx.is_recompute] % 2 == 1
        else:
            keep = func is of_attention
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(choose_policy)


def recomputation_wrapper(setup: Setup, index: int) -> Callable[..., Any] | None:
    """Wrapper that recomputes the layer of that index; None if it is not recomputed as a whole."""
    kind = setup.recomputation
    plain = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
    if kind == "operators":
        return partial(plain, context_fn=partial(selective_contexts, setup))
    return plain if kind == "full" or (kind == "every_second_layer" and index % 2 == 1) else None


def offload_hooks() -> Any:
    """Hooks that move tensors saved for backward to host memory; parameters stay on the device."""

    def pack_tensor(tensor: Any) -> Any:
        here = any(isinstance(t, nn.Parameter) for t in (tensor, tensor._base))
        if here or tensor.numel() < OFFLOADED_FROM_ELEMENTS or not tensor.is_floating_point():
            return tensor
        return tensor.shape, tensor.dtype, tensor.device

    def unpack_tensor(kept: Any) -> Any:
        return kept if isinstance(kept, torch.Tensor) else torch.empty(kept[0], dtype=kept[1], device=kept[2])

    return saved_tensors_hooks(pack_tensor, unpack_tensor)


class Decoder(nn.Module):
    """A decoder; `forward` returns the normalized last hidden state."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        s, dtype, trained = setup.shape, norm_dtype(setup), not setup.frozen
        self.setup = setup
        self.embedding = nn.Parameter(torch.empty(s.vocab, s.hidden, dtype=dtype), requires_grad=trained)
        if s.positions:
            self.position_embedding = nn.Parameter(
                torch.empty(s.positions, s.hidden, dtype=dtype), requires_grad=trained
            )
        self.layers = nn.ModuleList(Layer(setup, i) for i in range(s.layers))
        self.norm = Norm(s.hidden, setup, layer_norm=s.layer_norm)
        self.head = Linear(s.hidden, s.vocab, dtype, bias=s.head_bias, trained=trained)
        if s.tied:
            self.head.weight = self.embedding
        self.narrows = False  # manual autocast
        self.at_last: Callable[[Any], None] | None = None
        self.at_first: Callable[[Any], None] | None = None

    def _run_layer(self, layer: Any, x: Any, cos: Any, sin: Any) -> Any:
        with manual_autocast(wanted=self.narrows):
            return layer(x, cos, sin)

    def forward(self, tokens: Any) -> Any:
        s, setup = self.setup.shape, self.setup
        x = functional.embedding(tokens, self.embedding)
        if s.positions:
            x = x + self.position_embedding[: tokens.shape[1]]
        if setup.frozen and not x.requires_grad:
            x.requires_grad_()
        width = s.rope_dim or s.head_dim
        cos, sin = (x.new_empty(1, 1, tokens.shape[1], width) for _ in range(2))
        with offload_hooks() if setup.activation_offload else nullcontext():
            for i, layer in enumerate(self.layers):
                run = recomputation_wrapper(setup, i)
                x = self._run_layer(layer, x, cos, sin) if run is None else run(self._run_layer, layer, x, cos, sin)
                if i == 0 and self.at_first is not None:
                    x.register_hook(self.at_first)
        if self.at_last is not None:
            x.register_hook(self.at_last)
        return self.norm(x)
