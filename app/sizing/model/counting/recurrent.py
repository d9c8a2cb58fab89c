"""Recurrent mixers of decoders: their weights, states per sequence, and FLOPs.

States hold the tail of the convolution in 16 bit and the recurrence in 32 bit. FLOPs beyond the matrices are those
of the sequential form. Sources: Gu & Dao 2023 (arXiv:2312.00752), Dao & Gu 2024 (arXiv:2405.21060), Yang et al. 2024
(arXiv:2412.06464), Kimi Linear (arXiv:2510.26692).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.sizing.model.counting.configuration import Reader
from app.sizing.model.tensors import Inventory, Part

Layers = tuple[int, ...]
PART = Part.RECURRENT


def _add_state(inventory: Inventory, layers: Layers, *, state_bytes: float, flops: float) -> None:
    inventory.state_bytes += state_bytes * len(layers)
    inventory.recurrent_flops += flops * len(layers)


def add_mamba1(inventory: Inventory, reader: Reader, hidden_size: int, layers: Layers) -> None:
    """Add a selective state space model with a state per channel: 2 width kernel + 4 width state bytes."""
    jamba = reader.find_value("mamba_d_state") is not None or reader.model_type == "jamba"
    width = reader.integer("intermediate_size", 0) if not jamba else 0
    width = width or hidden_size * reader.size("mamba_expand" if jamba else "expand", 2)
    state = reader.size("mamba_d_state" if jamba else "state_size", 16)
    kernel = reader.size("mamba_d_conv" if jamba else "conv_kernel", 4)
    rank = reader.find_value("mamba_dt_rank" if jamba else "time_step_rank")
    rank = rank if isinstance(rank, int) else -(-hidden_size // 16)
    bias = reader.flag("mamba_proj_bias" if jamba else "use_bias")
    inventory.add_linear("in_proj", PART, hidden_size, 2 * width, layers, bias=bias)
    inventory.add_linear("x_proj", PART, width, rank + 2 * state, layers)
    inventory.add_linear("dt_proj", PART, rank, width, layers, bias=True)
    inventory.add_linear("out_proj", PART, width, hidden_size, layers, bias=bias)
    inventory.add_vector("conv1d", PART, width * kernel, layers)
    inventory.add_vector(
        "conv1d.bias", PART, width * reader.flag("mamba_conv_bias" if jamba else "use_conv_bias", default=True), layers
    )
    inventory.add_vector("A_log", PART, width * state, layers)
    inventory.add_vector("D", PART, width, layers)
    inventory.add_vector("dt_b_c_norms", Part.NORMS, (rank + 2 * state) if jamba else 0, layers)
    _add_state(
        inventory,
        layers,
        state_bytes=2 * width * kernel + 4 * width * state,
        flops=2 * width * kernel + 9 * width * state,
    )


def add_mamba2(inventory: Inventory, reader: Reader, hidden_size: int, layers: Layers) -> None:
    """Add a state space model with a scalar decay per head: 2 (width + 2 groups state) kernel + 4 width state bytes.

    Source: Dao & Gu 2024 (arXiv:2405.21060).
    Check: Mamba-2 130M, 24 layers of 24 heads of 64, a state of 128, a kernel of 4.
        >>> registered("state-spaces/mamba2-130m").state_bytes_per_sequence / 24
        800768.0
    """
    heads = reader.find_value("mamba_num_heads") or reader.find_value("mamba_n_heads")
    if reader.model_type == "mamba2":
        size = reader.size("head_dim", 64)
        heads = reader.size("num_heads", hidden_size * reader.size("expand", 2) // size)
        state, kernel, groups = (
            reader.size("state_size", 128),
            reader.size("conv_kernel", 4),
            reader.size("n_groups", 8),
        )
        conv_bias, bias = reader.flag("use_conv_bias", default=True), reader.flag("use_bias")
    elif reader.find_value("mamba_n_heads") is not None:
        size = reader.find_value("mamba_d_head")
        inner = reader.size("mamba_d_ssm", hidden_size * reader.size("mamba_expand", 2))
        size = size if isinstance(size, int) else inner // int(heads)
        state, kernel, groups = (
            reader.size("mamba_d_state", 256),
            reader.size("mamba_d_conv", 4),
            reader.size("mamba_n_groups", 1),
        )
        conv_bias, bias = reader.flag("mamba_conv_bias", default=True), reader.flag("mamba_proj_bias")
    else:
        heads, size = reader.size("mamba_num_heads"), reader.size("mamba_head_dim")
        state, kernel, groups = reader.size("ssm_state_size"), reader.size("conv_kernel", 4), reader.size("n_groups")
        conv_bias, bias = reader.flag("use_conv_bias", default=True), reader.flag("use_bias")
    heads = int(heads)
    width = heads * size
    falcon = reader.model_type == "falcon_h1"
    conv = width + 2 * groups * state
    inventory.add_linear("in_proj", PART, hidden_size, width + conv + heads, layers, bias=bias)
    bias = reader.flag("projectors_bias") if falcon else bias
    inventory.add_linear("out_proj", PART, width, hidden_size, layers, bias=bias)
    inventory.add_vector("conv1d", PART, conv * kernel + conv * conv_bias, layers)
    inventory.add_vector("A_log_D_dt_bias", PART, 3 * heads, layers)
    inventory.add_vector("gated_norm", Part.NORMS, 0 if falcon and not reader.flag("mamba_rms_norm") else width, layers)
    _add_state(
        inventory,
        layers,
        state_bytes=2 * conv * kernel + 4 * width * state,
        flops=2 * conv * kernel + 6 * width * state,
    )


def add_gated_delta(inventory: Inventory, reader: Reader, hidden_size: int, layers: Layers) -> None:
    """Add a gated delta rule with one state matrix per value head. The narrow gates stay in 16 bit."""
    key_heads, key_size = reader.size("linear_num_key_heads"), reader.size("linear_key_head_dim")
    value_heads, value_size = reader.size("linear_num_value_heads"), reader.size("linear_value_head_dim")
    kernel, key_width, value_width = (
        reader.size("linear_conv_kernel_dim", 4),
        key_heads * key_size,
        value_heads * value_size,
    )
    conv = 2 * key_width + value_width
    inventory.add_linear("in_proj_qkvz", PART, hidden_size, 2 * key_width + 2 * value_width, layers)
    inventory.add_linear("in_proj_ba", PART, hidden_size, 2 * value_heads, layers, quantized=False)
    inventory.add_linear("out_proj", PART, value_width, hidden_size, layers)
    inventory.add_vector("conv1d", PART, conv * kernel, layers)
    inventory.add_vector("A_log_dt_bias", PART, 2 * value_heads, layers)
    inventory.add_vector("gated_norm", Part.NORMS, value_size, layers)
    _add_state(
        inventory,
        layers,
        state_bytes=2 * conv * kernel + 4 * value_heads * key_size * value_size,
        flops=2 * conv * kernel + 8 * value_heads * key_size * value_size,
    )


def add_kimi_delta(inventory: Inventory, reader: Reader, hidden_size: int, layers: Layers) -> None:
    """Add a delta rule with one decay per channel. The output gate has low or full rank."""
    linear = reader.nested_part("linear_attn_config")
    heads = linear.size("num_heads", reader.integer("linear_num_heads", 0) or reader.size("num_attention_heads"))
    stated = reader.integer("linear_head_dim", 0) or reader.size("head_dim", hidden_size // heads)
    size = linear.size("head_dim", stated)
    kernel = linear.size("short_conv_kernel_size", reader.size("short_conv_kernel_size", 4))
    width = heads * size
    for role in ("q_proj", "k_proj", "v_proj"):
        inventory.add_linear(role, PART, hidden_size, width, layers)
    inventory.add_linear("o_proj", PART, width, hidden_size, layers)
    inventory.add_linear("b_proj", PART, hidden_size, heads, layers, quantized=False)
    inventory.add_linear("f_a_proj", PART, hidden_size, size, layers)
    inventory.add_linear("f_b_proj", PART, size, width, layers)
    if linear.flag("use_full_rank_gate") or reader.flag("no_kda_lora"):
        inventory.add_linear("g_proj", PART, hidden_size, width, layers)
    else:
        inventory.add_linear("g_a_proj", PART, hidden_size, size, layers)
        inventory.add_linear("g_b_proj", PART, size, width, layers)
    inventory.add_vector("conv1d", PART, 3 * width * kernel, layers)
    inventory.add_vector("A_log_dt_bias", PART, heads + width, layers)
    inventory.add_vector("gated_norm", Part.NORMS, size, layers)
    _add_state(
        inventory,
        layers,
        state_bytes=2 * 3 * width * kernel + 4 * heads * size * size,
        flops=2 * 3 * width * kernel + 8 * heads * size * size,
    )


def add_lightning_attention(inventory: Inventory, reader: Reader, hidden_size: int, layers: Layers) -> None:
    """Add linear attention with a fixed decay per head, a norm and an output gate."""
    heads = reader.size("num_attention_heads")
    size = reader.size("head_dim", hidden_size // heads)
    inventory.add_linear("qkv_proj", PART, hidden_size, 3 * heads * size, layers)
    inventory.add_linear("out_proj", PART, heads * size, hidden_size, layers)
    inventory.add_linear("output_gate", PART, hidden_size, heads * size, layers)
    inventory.add_vector("norm", Part.NORMS, heads * size, layers)
    _add_state(inventory, layers, state_bytes=4 * heads * size * size, flops=4 * heads * size * size)


def add_short_convolution(inventory: Inventory, reader: Reader, hidden_size: int, layers: Layers) -> None:
    """Add a gated convolution over a few tokens."""
    kernel, bias = reader.size("conv_L_cache", 3), reader.flag("conv_bias")
    inventory.add_linear("in_proj", PART, hidden_size, 3 * hidden_size, layers, bias=bias)
    inventory.add_linear("out_proj", PART, hidden_size, hidden_size, layers, bias=bias)
    inventory.add_vector("conv", PART, hidden_size * kernel + hidden_size * bias, layers)
    _add_state(inventory, layers, state_bytes=2 * hidden_size * kernel, flops=2 * hidden_size * kernel)


MIXERS: Mapping[str, Callable[[Inventory, Reader, int, Layers], None]] = {
    "mamba1": add_mamba1,
    "mamba2": add_mamba2,
    "gated_delta": add_gated_delta,
    "kimi_delta": add_kimi_delta,
    "lightning": add_lightning_attention,
    "conv": add_short_convolution,
}
