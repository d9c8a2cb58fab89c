"""Recurrent mixers: projections are matrices, the rest is small, and a sequence keeps a constant state.

States hold the convolution's tail in 16 bit and the recurrence in 32; FLOPs beyond the matrices are
those of the sequential form. Sources: Gu & Dao 2023 (arXiv:2312.00752), Dao & Gu 2024
(arXiv:2405.21060), Yang et al. 2024 (arXiv:2412.06464), Kimi Linear (arXiv:2510.26692).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.sizing.model.counting.configuration import Reader
from app.sizing.model.tensors import Inventory, Part

Layers = tuple[int, ...]
PART = Part.RECURRENT


def _constant(inventory: Inventory, layers: Layers, *, state_bytes: float, flops: float) -> None:
    inventory.state_bytes += state_bytes * len(layers)
    inventory.recurrent_flops += flops * len(layers)


def mamba1(inventory: Inventory, reader: Reader, h: int, layers: Layers) -> None:
    """Selective state space, per channel: state 2uK + 4uS bytes."""
    jamba = reader.find("mamba_d_state") is not None or reader.model_type == "jamba"
    u = reader.integer("intermediate_size", 0) if not jamba else 0
    u = u or h * reader.size("mamba_expand" if jamba else "expand", 2)
    state = reader.size("mamba_d_state" if jamba else "state_size", 16)
    k = reader.size("mamba_d_conv" if jamba else "conv_kernel", 4)
    rank = reader.find("mamba_dt_rank" if jamba else "time_step_rank")
    rank = rank if isinstance(rank, int) else -(-h // 16)
    bias = reader.flag("mamba_proj_bias" if jamba else "use_bias")
    inventory.linear("in_proj", PART, h, 2 * u, layers, bias=bias)
    inventory.linear("x_proj", PART, u, rank + 2 * state, layers)
    inventory.linear("dt_proj", PART, rank, u, layers, bias=True)
    inventory.linear("out_proj", PART, u, h, layers, bias=bias)
    inventory.vector("conv1d", PART, u * k, layers)
    inventory.vector(
        "conv1d.bias", PART, u * reader.flag("mamba_conv_bias" if jamba else "use_conv_bias", default=True), layers
    )
    inventory.vector("A_log", PART, u * state, layers)
    inventory.vector("D", PART, u, layers)
    inventory.vector("dt_b_c_norms", Part.NORMS, (rank + 2 * state) if jamba else 0, layers)
    _constant(inventory, layers, state_bytes=2 * u * k + 4 * u * state, flops=2 * u * k + 9 * u * state)


def mamba2(inventory: Inventory, reader: Reader, h: int, layers: Layers) -> None:
    """State space with scalar decay per head: state 2(u + 2GS)K + 4uS bytes."""
    heads = reader.find("mamba_num_heads") or reader.find("mamba_n_heads")
    if reader.model_type == "mamba2":
        size = reader.size("head_dim", 64)
        heads = reader.size("num_heads", h * reader.size("expand", 2) // size)
        state, k, groups = reader.size("state_size", 128), reader.size("conv_kernel", 4), reader.size("n_groups", 8)
        conv_bias, bias = reader.flag("use_conv_bias", default=True), reader.flag("use_bias")
    elif reader.find("mamba_n_heads") is not None:
        size = reader.find("mamba_d_head")
        size = size if isinstance(size, int) else h * reader.size("mamba_expand", 2) // int(heads)
        state, k, groups = (
            reader.size("mamba_d_state", 256),
            reader.size("mamba_d_conv", 4),
            reader.size("mamba_n_groups", 1),
        )
        conv_bias, bias = reader.flag("mamba_conv_bias", default=True), reader.flag("mamba_proj_bias")
    else:
        heads, size = reader.size("mamba_num_heads"), reader.size("mamba_head_dim")
        state, k, groups = reader.size("ssm_state_size"), reader.size("conv_kernel", 4), reader.size("n_groups")
        conv_bias, bias = reader.flag("use_conv_bias", default=True), reader.flag("use_bias")
    heads = int(heads)
    u = heads * size
    conv = u + 2 * groups * state
    inventory.linear("in_proj", PART, h, u + conv + heads, layers, bias=bias)
    inventory.linear("out_proj", PART, u, h, layers, bias=bias)
    inventory.vector("conv1d", PART, conv * k + conv * conv_bias, layers)
    inventory.vector("A_log_D_dt_bias", PART, 3 * heads, layers)
    inventory.vector("gated_norm", Part.NORMS, u, layers)
    _constant(inventory, layers, state_bytes=2 * conv * k + 4 * u * state, flops=2 * conv * k + 6 * u * state)


def gated_delta(inventory: Inventory, reader: Reader, h: int, layers: Layers) -> None:
    """Gated delta rule: a matrix per value head; the narrow gates stay in 16 bit."""
    kh, kd = reader.size("linear_num_key_heads"), reader.size("linear_key_head_dim")
    vh, vd = reader.size("linear_num_value_heads"), reader.size("linear_value_head_dim")
    k, kq, vq = reader.size("linear_conv_kernel_dim", 4), kh * kd, vh * vd
    conv = 2 * kq + vq
    inventory.linear("in_proj_qkvz", PART, h, 2 * kq + 2 * vq, layers)
    inventory.linear("in_proj_ba", PART, h, 2 * vh, layers, quantised=False)
    inventory.linear("out_proj", PART, vq, h, layers)
    inventory.vector("conv1d", PART, conv * k, layers)
    inventory.vector("A_log_dt_bias", PART, 2 * vh, layers)
    inventory.vector("gated_norm", Part.NORMS, vd, layers)
    _constant(inventory, layers, state_bytes=2 * conv * k + 4 * vh * kd * vd, flops=2 * conv * k + 8 * vh * kd * vd)


def kimi_delta(inventory: Inventory, reader: Reader, h: int, layers: Layers) -> None:
    """Delta rule with a decay per channel; the output gate is of low or of full rank."""
    linear = reader.part("linear_attn_config")
    heads, size, k = linear.size("num_heads"), linear.size("head_dim"), linear.size("short_conv_kernel_size", 4)
    width = heads * size
    for role in ("q_proj", "k_proj", "v_proj"):
        inventory.linear(role, PART, h, width, layers)
    inventory.linear("o_proj", PART, width, h, layers)
    inventory.linear("b_proj", PART, h, heads, layers, quantised=False)
    inventory.linear("f_a_proj", PART, h, size, layers)
    inventory.linear("f_b_proj", PART, size, width, layers)
    if linear.flag("use_full_rank_gate"):
        inventory.linear("g_proj", PART, h, width, layers)
    else:
        inventory.linear("g_a_proj", PART, h, size, layers)
        inventory.linear("g_b_proj", PART, size, width, layers)
    inventory.vector("conv1d", PART, 3 * width * k, layers)
    inventory.vector("A_log_dt_bias", PART, heads + width, layers)
    inventory.vector("gated_norm", Part.NORMS, size, layers)
    _constant(
        inventory,
        layers,
        state_bytes=2 * 3 * width * k + 4 * heads * size * size,
        flops=2 * 3 * width * k + 8 * heads * size * size,
    )


def lightning(inventory: Inventory, reader: Reader, h: int, layers: Layers) -> None:
    """Linear attention with a fixed decay per head, normed and gated."""
    n = reader.size("num_attention_heads")
    d = reader.size("head_dim", h // n)
    inventory.linear("qkv_proj", PART, h, 3 * n * d, layers)
    inventory.linear("out_proj", PART, n * d, h, layers)
    inventory.linear("output_gate", PART, h, n * d, layers)
    inventory.vector("norm", Part.NORMS, n * d, layers)
    _constant(inventory, layers, state_bytes=4 * n * d * d, flops=4 * n * d * d)


def short_convolution(inventory: Inventory, reader: Reader, h: int, layers: Layers) -> None:
    """A gated convolution over a few tokens."""
    k, bias = reader.size("conv_L_cache", 3), reader.flag("conv_bias")
    inventory.linear("in_proj", PART, h, 3 * h, layers, bias=bias)
    inventory.linear("out_proj", PART, h, h, layers, bias=bias)
    inventory.vector("conv", PART, h * k + h * bias, layers)
    _constant(inventory, layers, state_bytes=2 * h * k, flops=2 * h * k)


MIXERS: Mapping[str, Callable[[Inventory, Reader, int, Layers], None]] = {
    "mamba1": mamba1,
    "mamba2": mamba2,
    "gated_delta": gated_delta,
    "kimi_delta": kimi_delta,
    "lightning": lightning,
    "conv": short_convolution,
}
