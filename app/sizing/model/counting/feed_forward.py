"""The feed-forward part of a layer: a dense MLP, routed experts with or without shared experts, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.counting.configuration import Reader
from app.sizing.model.counting.families import Family
from app.sizing.model.tensors import Inventory, Part

Layers = tuple[int, ...]
_SHARED_BIAS = ("nemotron_h", "ernie4_5_moe")  # families whose shared experts have the biases of a dense MLP


@dataclass(frozen=True, slots=True)
class ExpertRouting:
    """Expert routing of a model: routing layers, experts, experts per token, and MLP width active per token."""

    layers: int = 0
    count: int = 0
    per_token: int = 0
    active_width: float = 0.0


def add_mlp(
    inventory: Inventory,
    part: Part,
    hidden_size: int,
    mlp_width: int,
    layers: Layers,
    *,
    gated: bool,
    bias: bool = False,
    fused: bool = False,
    prefix: str = "",
) -> None:
    """Add a dense MLP: 3hf elements if gated, 2hf otherwise.

    Source: Shazeer 2020 (arXiv:2002.05202) for the gated form.
    Check: Llama-3.1-8B, 3 * 4096 * 14336 per layer.
        >>> LLAMA_8B.parts["mlp"] // 32
        176160768
    """
    if gated and fused:
        inventory.add_linear(f"{prefix}gate_up_proj", part, hidden_size, 2 * mlp_width, layers, bias=bias)
    else:
        if gated:
            inventory.add_linear(f"{prefix}gate_proj", part, hidden_size, mlp_width, layers, bias=bias)
        inventory.add_linear(f"{prefix}up_proj", part, hidden_size, mlp_width, layers, bias=bias)
    inventory.add_linear(f"{prefix}down_proj", part, mlp_width, hidden_size, layers, bias=bias)


def dense_mlp_width(reader: Reader, family: str, hidden_size: int) -> int:
    """Width of the dense MLP; some families have their own keys and rules."""
    if family == "llama4_text":
        return reader.size("intermediate_size_mlp", reader.size("intermediate_size"))
    if family == "minimax_m3":
        return reader.size("dense_intermediate_size")
    if family == "mpt":
        return hidden_size * reader.size("expansion_ratio", 4)
    if family == "qwen":
        return reader.size("intermediate_size") // 2
    if family == "lfm2":
        mlp_width = reader.size("intermediate_size")
        if reader.flag("block_auto_adjust_ff_dim", default=True):
            mlp_width = int(int(2 * mlp_width / 3) * reader.number("block_ffn_dim_multiplier", 1.0))
            multiple = reader.size("block_multiple_of", 256)
            mlp_width = multiple * -(-mlp_width // multiple)
        return mlp_width
    value = reader.find_value("intermediate_size")
    if family in ("granitemoehybrid", "granitemoeshared") and reader.find_value("shared_intermediate_size") is not None:
        return reader.size("shared_intermediate_size")
    return 4 * hidden_size if value is None else reader.size("intermediate_size")


def _single_value(value: Any) -> Any:
    """The single value of a list of equal values, because Hunyuan lists one value per layer."""
    return value[0] if isinstance(value, list) and value and len(set(map(str, value))) == 1 else value


def add_experts(
    inventory: Inventory, reader: Reader, spec: Family, family: str, hidden_size: int, layers: Layers
) -> ExpertRouting:
    """Add the routed experts, their router and the shared experts of all routing layers.

    E - k experts are inactive per token. Raises UnreadableConfiguration if k exceeds E.
    """
    count, k = reader.size("num_experts"), reader.size("experts_per_token")
    if k > count:
        raise UnreadableConfiguration(
            f"The configuration routes each token to {k} experts but has only {count}.", key="num_experts_per_tok"
        )
    mlp_width = (
        dense_mlp_width(reader, family, hidden_size) if family == "grok-1" else reader.integer("intermediate_size", 0)
    )
    expert_width = reader.size("moe_intermediate_size", mlp_width)
    matrices_in = reader.integer("moe_latent_size", 0) or reader.integer("routed_expert_hidden_size", 0) or hidden_size
    part = Part.ROUTED_EXPERTS
    bias = spec.expert_bias
    if spec.gated:
        inventory.add_linear(
            "experts.gate_proj", part, matrices_in, expert_width, layers, copies=count, used=k, bias=bias
        )
    inventory.add_linear("experts.up_proj", part, matrices_in, expert_width, layers, copies=count, used=k, bias=bias)
    inventory.add_linear("experts.down_proj", part, expert_width, matrices_in, layers, copies=count, used=k, bias=bias)
    if matrices_in != hidden_size:
        inventory.add_linear("latent_in", Part.SHARED_EXPERTS, hidden_size, matrices_in, layers)
        inventory.add_linear("latent_out", Part.SHARED_EXPERTS, matrices_in, hidden_size, layers)
        inventory.add_vector(
            "latent_norm", Part.NORMS, matrices_in if reader.flag("latent_moe_use_norm") else 0, layers
        )
    inventory.add_linear("router", Part.ROUTER, hidden_size, count, layers, bias=spec.router_bias, quantized=False)
    inventory.add_vector("router.correction_bias", Part.ROUTER, count if family == "ernie4_5_moe" else 0, layers)
    if family == "gemma4_text":
        inventory.add_vector("router.scales", Part.ROUTER, hidden_size + count, layers)
    shared = _shared_width(reader, family, expert_width, mlp_width)
    add_mlp(
        inventory,
        Part.SHARED_EXPERTS,
        hidden_size,
        shared,
        layers,
        gated=spec.gated,
        bias=family in _SHARED_BIAS and reader.flag(spec.mlp_bias),
        prefix="shared_expert.",
    )
    if shared and spec.shared_gate:
        inventory.add_linear("shared_expert_gate", Part.ROUTER, hidden_size, 1, layers, quantized=False)
    if family == "arctic":
        add_mlp(inventory, Part.MLP, hidden_size, hidden_size, layers, gated=True, prefix="residual.")
        inventory.add_vector("residual_norm", Part.NORMS, hidden_size, layers)
    return ExpertRouting(len(layers), count, k, float(k * expert_width + shared))


def _shared_width(reader: Reader, family: str, expert_width: int, mlp_width: int) -> int:
    for key in ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"):
        value = reader.integer(key, 0)
        if value:
            return value
    if family == "llama4_text":
        return mlp_width
    number = _single_value(reader.find_value("num_shared_experts"))
    return int(number) * expert_width if isinstance(number, int) else 0
