"""Widths of a model's mean layer, to which the activation memory of one token is proportional."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.sizing.model.adapters import MIXER_PARTS, Targets, is_adapted
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.tensors import Part, Per, Tensor


@dataclass(frozen=True, slots=True)
class LayerWidths:
    """Elements of one token in a mean layer. For experts, the elements of all copies of the token are summed."""

    queries: float  # elements of queries and attention output
    keys: float  # elements of keys and values
    dense: float  # width of the MLP and of shared experts
    routed: float  # width of routed experts
    dispatched: float  # elements dispatched to routed experts
    router: float  # router scores
    selected_experts: float  # experts selected
    norms: float  # norms before attention and MLP
    norm_readers: float  # matrices that read the output of a norm


@dataclass(frozen=True, slots=True)
class AdapterWidths:
    """Elements of one token in a mean layer that adapted matrices read."""

    inputs: float  # elements read by all adapted matrices
    unshared: float  # the same with each input once and without the attention output, which is kept anyway
    outputs: float  # elements of the attention output, if the output projection is adapted
    mlp_inputs: float  # elements read by adapted matrices of MLPs and experts
    matrices: float  # adapted matrices


def attention_widths(
    groups: Iterable[AttentionGroup], *, heads: int, kv_heads: int, head_dim: int
) -> tuple[float, float]:
    """(queries and output, keys and values) of one token in a mean layer that attends, in elements.

    MLA expands keys and values to every head in training, so all four are as wide as the query heads.

    Limits: recurrent mixers keep less.
    Check: Llama-3.1-8B, 2 * 32 * 128 and 2 * 8 * 128.
        >>> attention_widths(LLAMA_8B.attention, heads=32, kv_heads=8, head_dim=128)
        (8192.0, 2048.0)
    """
    spread = [g for g in groups if g.prefill_macs]
    if not spread:
        return float(2 * heads * head_dim), float(2 * min(kv_heads, heads) * head_dim)
    layers = sum(g.layers for g in spread)
    keys = sum(g.layers * (g.kv_elements if g.decode_macs <= g.prefill_macs else g.prefill_macs) for g in spread)
    return sum(g.layers * g.prefill_macs for g in spread) / layers, keys / layers


def layer_widths(model: ModelArchitecture) -> LayerWidths:
    """Widths of a mean layer. The width of an MLP is the input width of its last matrix.

    Check: Llama-3.1-8B.
        >>> widths = layer_widths(LLAMA_8B)
        >>> widths.queries, widths.keys, widths.dense, widths.routed, widths.norms, widths.norm_readers
        (8192.0, 2048.0, 14336.0, 0.0, 2.0, 5.0)
    """
    layers = max(1, model.num_layers)
    down = [t for t in model.tensors if t.role.endswith("down_proj") and t.per is not Per.NEVER]
    routed = [t for t in down if t.part is Part.ROUTED_EXPERTS]
    share = (model.moe_layers if model.is_moe else 0) / layers
    queries, keys = attention_widths(
        model.attention, heads=model.num_heads, kv_heads=model.kv_heads, head_dim=model.head_dim
    )
    return LayerWidths(
        queries=queries,
        keys=keys,
        dense=sum(_input_elements(t) for t in down if t.part is not Part.ROUTED_EXPERTS) / layers,
        routed=sum(map(_input_elements, routed)) / layers,
        dispatched=sum(t.outputs * t.used * len(t.layers) for t in routed) / layers,
        router=model.num_experts * share,
        selected_experts=model.experts_per_token * share,
        norms=float(model.block.norms),
        norm_readers=5.0 if model.is_gated else 4.0,
    )


def _input_elements(tensor: Tensor) -> float:
    """Elements of one token that the copies of a tensor read in all layers."""
    return float(tensor.inputs * tensor.used * len(tensor.layers))


def adapter_widths(model: ModelArchitecture, targets: Targets) -> AdapterWidths:
    """Elements that the adapters of a mean layer read.

    Check: Llama-3.1-8B, all seven matrices: 5h + nd + f; two inputs of h and the MLP product are read only by
    adapters.
        >>> widths = adapter_widths(LLAMA_8B, "all-linear")
        >>> widths.inputs == 5 * 4096 + 4096 + 14336, widths.unshared == 2 * 4096 + 14336, widths.matrices
        (True, True, 7.0)
    """
    adapted = [t for t in model.tensors if t.per is Per.TOKEN and is_adapted(t, targets)]
    layers = max(1, model.num_layers)
    elements_by_input: dict[tuple[str, tuple[int, ...]], float] = {}
    for t in adapted:
        name = _input_name(t, parallel=model.block.norms == 1)
        if name:
            elements_by_input[name, t.layers] = max(elements_by_input.get((name, t.layers), 0.0), _input_elements(t))
    return AdapterWidths(
        inputs=sum(map(_input_elements, adapted)) / layers,
        unshared=sum(elements_by_input.values()) / layers,
        outputs=sum(_input_elements(t) for t in adapted if t.role.endswith("o_proj")) / layers,
        mlp_inputs=sum(_input_elements(t) for t in adapted if t.part not in MIXER_PARTS) / layers,
        matrices=sum(t.used * len(t.layers) for t in adapted) / layers,
    )


def _input_name(tensor: Tensor, *, parallel: bool) -> str:
    """Name of the activation that a matrix reads; empty for the attention output, which is kept anyway."""
    if tensor.role.endswith("o_proj"):
        return ""
    if tensor.role.endswith("down_proj"):
        return f"{tensor.part}.product"
    return "norm" if parallel else str(tensor.part)
