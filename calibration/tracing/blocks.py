"""Compact decoder layers: norms, attention, gated and plain MLPs, latent attention, mixtures of experts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from calibration.tracing.matrices import NF4_BLOCK, NF4_PER_BYTE, make_matrix
from calibration.tracing.narrowing import batched_product, linear_product
from calibration.tracing.setups import Setup
from calibration.tracing.stand_ins import (
    eager_norm,
    flash_attention,
    fused_norm,
    gated_product,
    nf4_batched,
    rotate_heads,
    written_out_gelu,
)


def param_dtype(setup: Setup) -> Any:
    """Data type of a trained matrix."""
    return torch.float32 if setup.weights in ("sharded", "autocast") else torch.bfloat16


def norm_dtype(setup: Setup) -> Any:
    """Data type of norms, embedding and head; a frozen model has BF16 unless k-bit preparation widens them."""
    if setup.frozen:
        return torch.float32 if setup.method == "qlora" and setup.kbit_widening else torch.bfloat16
    return param_dtype(setup)


class Norm(nn.Module):
    """RMSNorm in one kernel or several, or LayerNorm, which is one kernel."""

    def __init__(self, width: int, setup: Setup, *, layer_norm: bool = False) -> None:
        super().__init__()
        dtype, trained, shape = norm_dtype(setup), not setup.frozen, setup.shape
        made = not shape.no_norm_weights
        self.fused, self.layer_norm, self.width = setup.kernels != "eager", layer_norm, width
        self.weight = nn.Parameter(torch.empty(width, dtype=dtype), requires_grad=trained) if made else None
        biased = layer_norm and made and shape.norm_bias
        self.bias = nn.Parameter(torch.empty(width, dtype=dtype), requires_grad=trained) if biased else None
        self.under_autocast = setup.computes_under_autocast

    def forward(self, x: Any) -> Any:
        if self.layer_norm:
            if self.under_autocast:  # in FP32, as on accelerators
                weight, bias = (None if p is None else p.float() for p in (self.weight, self.bias))
                return functional.layer_norm(x.float(), (self.width,), weight, bias)
            return functional.layer_norm(x, (self.width,), self.weight, self.bias)
        return fused_norm(x, self.weight) if self.fused else eager_norm(x, self.weight)


def attention_core(q: Any, k: Any, v: Any, kind: str) -> Any:
    """Attention over heads of shape (batch, heads, tokens, width): flash, or with scores in memory."""
    if kind == "flash":
        return flash_attention(q, k, v)
    copies = q.shape[1] // k.shape[1]
    if copies > 1:
        k, v = (x[:, :, None].expand(-1, -1, copies, -1, -1).reshape(x.shape[0], -1, *x.shape[2:]) for x in (k, v))
    scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5
    return torch.matmul(functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), v)


class Attention(nn.Module):
    """Grouped-query attention."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        shape, dtype = setup.shape, param_dtype(setup)
        self.setup, self.shape = setup, shape
        wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        bias = shape.bias or shape.qkv_bias
        self.q = make_matrix("q", shape.hidden, wide, setup, dtype, bias=bias)
        self.k = make_matrix("k", shape.hidden, narrow, setup, dtype, bias=bias)
        self.v = make_matrix("v", shape.hidden, narrow, setup, dtype, bias=bias)
        self.o = make_matrix("o", wide, shape.hidden, setup, dtype, bias=shape.bias)
        if shape.qk_norm:
            self.q_norm, self.k_norm = Norm(shape.head_dim, setup), Norm(shape.head_dim, setup)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        shape, lead = self.shape, x.shape[:-1]
        q, k, v = (m(x).view(*lead, -1, shape.head_dim) for m in (self.q, self.k, self.v))
        if shape.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if shape.rotary:
            q, k = rotate_heads(q, cos, sin), rotate_heads(k, cos, sin)
        return self.o(attention_output(q, k, v, self.setup, x))


def attention_output(q: Any, k: Any, v: Any, setup: Setup, x: Any) -> Any:
    """Attention output for the input x: computed in 16 bit, and recomputed in backward if the recipe says so."""
    q, k, v = (t.to(torch.bfloat16) for t in (q, k, v))
    if setup.recomputation == "attention":
        out = checkpoint(attention_core, q, k, v, setup.attention, use_reentrant=False, preserve_rng_state=False)
    else:
        out = attention_core(q, k, v, setup.attention)
    out = out.transpose(1, 2).reshape(*x.shape[:-1], -1)
    return out if setup.computes_under_autocast else out.to(x.dtype)


class LatentAttention(nn.Module):
    """Multi-head latent attention (MLA) with expanded keys and values, as in training."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        s, dtype = setup.shape, param_dtype(setup)
        self.setup, self.shape = setup, s
        keys = s.head_dim + s.rope_dim
        if s.q_latent:
            self.q_down = make_matrix("q", s.hidden, s.q_latent, setup, dtype)
            self.q_norm = Norm(s.q_latent, setup)
        self.q = make_matrix("q", s.q_latent or s.hidden, s.heads * keys, setup, dtype)
        self.kv_down = make_matrix("k", s.hidden, s.kv_latent + s.rope_dim, setup, dtype)
        self.kv_norm = Norm(s.kv_latent, setup)
        self.kv = make_matrix("v", s.kv_latent, s.heads * (s.head_dim + s.value_dim), setup, dtype)
        self.o = make_matrix("o", s.heads * s.value_dim, s.hidden, setup, dtype)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        s, lead = self.shape, x.shape[:-1]
        q = self.q(self.q_norm(self.q_down(x)) if s.q_latent else x).view(*lead, s.heads, -1).transpose(1, 2)
        q_plain, q_turned = q.split((s.head_dim, s.rope_dim), dim=-1)
        latent, k_turned = self.kv_down(x).split((s.kv_latent, s.rope_dim), dim=-1)
        kv = self.kv(self.kv_norm(latent)).view(*lead, s.heads, -1).transpose(1, 2)
        k_plain, v = kv.split((s.head_dim, s.value_dim), dim=-1)
        k_turned = rotate_heads(k_turned[:, None], cos, sin).expand(-1, s.heads, -1, -1)
        q = torch.cat((q_plain, rotate_heads(q_turned, cos, sin)), dim=-1)
        k = torch.cat((k_plain, k_turned), dim=-1)
        return self.o(attention_output(q, k, v, self.setup, x))


class Mlp(nn.Module):
    """A gated MLP, or a plain one with GELU or ReLU."""

    def __init__(self, setup: Setup, width: int) -> None:
        super().__init__()
        shape, dtype = setup.shape, param_dtype(setup)
        self.gated, self.fused = shape.gated, setup.kernels != "eager"
        written_out = shape.gelu_written_out and not self.fused
        self.act = functional.relu if shape.relu else written_out_gelu if written_out else functional.gelu
        if shape.gated:
            self.gate = make_matrix("gate", shape.hidden, width, setup, dtype, bias=shape.bias)
        self.up = make_matrix("up", shape.hidden, width, setup, dtype, bias=shape.bias)
        self.down = make_matrix("down", width, shape.hidden, setup, dtype, bias=shape.bias)

    def forward(self, x: Any) -> Any:
        if self.gated:
            return self.down(gated_product(self.gate(x), self.up(x), fused=self.fused))
        return self.down(self.act(self.up(x)))


class ExpertMatrices(nn.Module):
    """One matrix of every expert, stored as one tensor so that any number of ranks can shard it."""

    def __init__(self, experts: int, size: tuple[int, int], setup: Setup, dtype: Any) -> None:
        super().__init__()
        self.experts, self.size, self.packed = experts, size, setup.method == "qlora"
        if self.packed:
            held = torch.empty(experts * size[0] * size[1] // NF4_PER_BYTE, 1, dtype=torch.uint8)
            self.scales = torch.empty(2 * held.numel() // NF4_BLOCK, dtype=torch.uint8)
        else:
            held = torch.empty(experts * size[0], size[1], dtype=dtype)
        self.weight = nn.Parameter(held, requires_grad=not setup.frozen)

    def forward(self, x: Any) -> Any:
        if self.packed:
            return nf4_batched(x, self.weight, self.size).to(x.dtype)
        return batched_product(x, self.weight, (self.experts, *self.size))


class Experts(nn.Module):
    """Routed experts: tokens are distributed evenly, one batched product per matrix, outputs are weighted in FP32."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        s, dtype = setup.shape, torch.bfloat16 if setup.frozen else param_dtype(setup)
        self.shape, self.fused, trained = s, setup.kernels != "eager", not setup.frozen
        self.router = nn.Parameter(torch.empty(s.experts, s.hidden, dtype=dtype), requires_grad=trained)
        sizes = (s.expert_width, s.hidden), (s.expert_width, s.hidden), (s.hidden, s.expert_width)
        self.gate, self.up, self.down = (ExpertMatrices(s.experts, size, setup, dtype) for size in sizes)
        self.shared = Mlp(setup, s.shared_width) if s.shared_width else None

    def forward(self, x: Any) -> Any:
        s, flat = self.shape, x.reshape(-1, x.shape[-1])
        tokens = flat.shape[0]
        scores = functional.softmax(linear_product(flat, self.router), dim=-1, dtype=torch.float32)
        weights, _ = torch.topk(scores, s.experts_per_token, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        capacity = -(-tokens * s.experts_per_token // s.experts)
        order = x.new_empty(s.experts * capacity, dtype=torch.int64)
        sent = flat.index_select(0, order).view(s.experts, capacity, -1)
        inner = gated_product(self.gate(sent), self.up(sent), fused=self.fused)
        out = self.down(inner).view(s.experts * capacity, -1)
        back = x.new_empty(tokens * s.experts_per_token, dtype=torch.int64)
        out = out.float() * weights.flatten().index_select(0, order % tokens)[:, None]
        out = out.to(x.dtype).index_select(0, back).view(tokens, s.experts_per_token, -1).sum(1).view_as(x)
        return out if self.shared is None else out + self.shared(x)


class Layer(nn.Module):
    """One layer: attention and MLP in sequence, or in parallel."""

    def __init__(self, setup: Setup, index: int) -> None:
        super().__init__()
        s = setup.shape
        self.parallel, self.sandwich, self.shared = s.parallel, s.sandwich_norms, s.parallel and s.parallel_norms == 1
        self.first = Norm(s.hidden, setup, layer_norm=s.layer_norm)
        self.attention = LatentAttention(setup) if s.kv_latent else Attention(setup)
        if not self.shared:
            self.second = Norm(s.hidden, setup, layer_norm=s.layer_norm)
        if s.sandwich_norms:
            self.third, self.fourth = Norm(s.hidden, setup), Norm(s.hidden, setup)
        routed = s.experts > 1 and index >= s.dense_layers
        self.mlp = Experts(setup) if routed else Mlp(setup, s.mlp_width)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        if self.parallel:
            normed = self.first(x)
            return x + self.attention(normed, cos, sin) + self.mlp(normed if self.shared else self.second(x))
        if self.sandwich:
            x = x + self.third(self.attention(self.first(x), cos, sin))
            return x + self.fourth(self.mlp(self.second(x)))
        x = x + self.attention(self.first(x), cos, sin)
        return x + self.mlp(self.second(x))
