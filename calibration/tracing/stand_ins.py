"""Stand-ins for kernels that fake tensors run differently from an accelerator; they save the same tensors.

Flash attention saves queries, keys, values, its output and four bytes per row and head. Dropout saves one byte per
element. A fused norm saves its input and one factor per row. A fused gate saves its two inputs. A compiled loss saves
its logits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from calibration.tracing.narrowing import cast_operand

FLASH = torch.ops.aten._scaled_dot_product_flash_attention


class _FlashOfTwoWidths(torch.autograd.Function):
    """Flash attention with values narrower than its keys."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
        out = q.new_empty((*q.shape[:-1], v.shape[-1]))
        rows = q.new_empty(q.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(q, k, v, out, rows)
        return out

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        q, k, v, _, _ = ctx.saved_tensors
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def flash_attention(q: Any, k: Any, v: Any) -> Any:
    """Causal flash attention over heads, without a mask or scores in memory; shared key heads are not copied."""
    if q.shape[-1] == v.shape[-1]:
        return FLASH(q, k, v, 0.0, True)[0]
    return _FlashOfTwoWidths.apply(q, k, v)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(torch.empty_like(x, dtype=torch.bool))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        _ = ctx.saved_tensors
        return torch.empty_like(_grad)


def dropout_stand_in(x: Any) -> Any:
    """Dropout that saves one byte per element."""
    return _Dropout.apply(x)


class _FusedNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(x, weight, x.new_empty((*x.shape[:-1], 1), dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight) if ctx.needs_input_grad[1] else None


def fused_norm(x: Any, weight: Any) -> Any:
    """RMSNorm in one kernel."""
    return _FusedNorm.apply(x, weight)


def eager_norm(x: Any, weight: Any, eps: float = 1e-5) -> Any:
    """RMSNorm as Transformers modules compute it: cast to FP32, normalize, cast back, scale."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


class _FusedGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Any, up: Any) -> Any:
        ctx.save_for_backward(gate, up)
        return torch.empty_like(gate)

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        gate, up = ctx.saved_tensors
        return torch.empty_like(gate), torch.empty_like(up)


def gated_product(gate: Any, up: Any, *, fused: bool) -> Any:
    """Product of SwiGLU, in one kernel or two."""
    return _FusedGate.apply(gate, up) if fused else functional.silu(gate) * up


def rotate_heads(x: Any, cos: Any, sin: Any) -> Any:
    """Rotary embedding of heads as Transformers modules compute it."""
    half = x.shape[-1] // 2
    return (x * cos) + (torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin)


def written_out_gelu(x: Any) -> Any:
    """GELU in its tanh form as Transformers modules compute it, one kernel per operation."""
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


class _CompiledLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any) -> Any:
        ctx.save_for_backward(logits, labels, logits.new_empty(logits.shape[:-1], dtype=torch.float32))
        return logits.new_empty((), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        logits, _, _ = ctx.saved_tensors
        return torch.empty_like(logits), None


def compiled_loss(logits: Any, labels: Any) -> Any:
    """Compiled cross entropy: logits in, gradient out, no FP32 copy in memory."""
    return _CompiledLoss.apply(logits, labels)


class _InPlaceLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any) -> Any:
        ctx.save_for_backward(logits, labels)
        return logits.new_empty(())

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        return ctx.saved_tensors[0], None


def in_place_loss(logits: Any, labels: Any) -> Any:
    """Cross entropy in one kernel whose gradient overwrites the logits."""
    return _InPlaceLoss.apply(logits, labels)


class _FusedHeadAndLoss(torch.autograd.Function):
    """Head and loss in chunks; the gradients of input and weights are computed in forward."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, chunks: int) -> Any:
        grad_x = torch.empty_like(x)
        grad_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        for part in x.chunk(chunks):
            logits = cast_operand(part) @ cast_operand(weight).t()
            _ = logits @ cast_operand(weight)
            if grad_weight is not None:
                grad_weight += logits.t() @ cast_operand(part)
            del logits
        ctx.save_for_backward(grad_x, grad_weight)
        return x.new_empty((), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        grad_x, grad_weight = ctx.saved_tensors
        return grad_x, grad_weight, None


def fused_head_and_loss(x: Any, weight: Any, chunks: int) -> Any:
    """Loss fused with the output head."""
    return _FusedHeadAndLoss.apply(x, weight, chunks)


class _Nf4Product(torch.autograd.Function):
    """Product with a 4-bit weight that is dequantized in forward and again in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, packed: Any, shape: tuple[int, int]) -> Any:
        ctx.save_for_backward(packed)
        ctx.shape = shape
        return functional.linear(x, x.new_empty(shape))

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        _ = ctx.saved_tensors
        return _grad @ _grad.new_empty(ctx.shape), None, None


def nf4_product(x: Any, packed: Any, shape: tuple[int, int]) -> Any:
    """Product with a quantized matrix."""
    return _Nf4Product.apply(x, packed, shape)


class _Nf4Batched(torch.autograd.Function):
    """One product per expert with 4-bit weights that are dequantized one expert at a time."""

    @staticmethod
    def forward(ctx: Any, x: Any, packed: Any, shape: tuple[int, int]) -> Any:
        ctx.save_for_backward(packed)
        ctx.shape = shape
        out = x.new_empty((*x.shape[:-1], shape[0]))
        _ = x.new_empty(shape)
        return out

    @staticmethod
    def backward(ctx: Any, _grad: Any) -> Any:
        _ = ctx.saved_tensors, _grad.new_empty(ctx.shape)
        return _grad.new_empty((*_grad.shape[:-1], ctx.shape[1])), None, None


def nf4_batched(x: Any, packed: Any, shape: tuple[int, int]) -> Any:
    """Product of every expert's tokens with its quantized matrix."""
    return _Nf4Batched.apply(x.to(torch.bfloat16), packed, shape)
