"""The widths of a model's mean layer: what everything that one token leaves in memory is proportional to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.sizing.model.adapters import MIXING, Targets, is_adapted
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.tensors import Part, Per, Tensor


@dataclass(frozen=True, slots=True)
class LayerWidths:
    """Elements of one token in a mean layer; of experts what is sent to them, all copies together."""

    queries: float  # and attention's output
    keys: float  # and values
    dense: float  # of the MLP and of shared experts
    routed: float  # of routed experts
    sent: float  # to routed experts
    router: float  # scores of experts
    choices: float  # of experts
    norms: float  # before attention and MLP
    readers: float  # matrices that read a norm's output


@dataclass(frozen=True, slots=True)
class AdapterWidths:
    """Elements of one token in a mean layer that adapted matrices read."""

    inputs: float  # by each of them
    unshared: float  # each tensor once, without attention's output, which is kept anyway
    outputs: float  # of attention, which the matrix after it reads
    of_mlp: float  # what those of MLPs and experts read
    matrices: float


def attention_widths(
    groups: Iterable[AttentionGroup], *, heads: int, kv_heads: int, head_dim: int
) -> tuple[float, float]:
    """(queries and output, keys and values) of one token in a mean layer that attends.

    MLA expands keys and values to every head while training: all four are as wide as the heads.

    Source: counted.
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
    """Widths of a mean layer; an MLP is as wide as what its last matrix reads.

    Source: counted.
    Check: Llama-3.1-8B.
        >>> found = layer_widths(LLAMA_8B)
        >>> found.queries, found.keys, found.dense, found.routed, found.norms, found.readers
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
        dense=sum(_read(t) for t in down if t.part is not Part.ROUTED_EXPERTS) / layers,
        routed=sum(map(_read, routed)) / layers,
        sent=sum(t.outputs * t.used * len(t.layers) for t in routed) / layers,
        router=model.num_experts * share,
        choices=model.experts_per_token * share,
        norms=float(model.block.norms),
        readers=5.0 if model.is_gated else 4.0,
    )


def _read(tensor: Tensor) -> float:
    """Elements of one token that a tensor's matrices read in all layers."""
    return float(tensor.inputs * tensor.used * len(tensor.layers))


def adapter_widths(model: ModelArchitecture, targets: Targets) -> AdapterWidths:
    """What adapters of a mean layer read.

    Source: counted.
    Check: Llama-3.1-8B, all seven matrices: 5h + nd + f, of which two inputs of h and the product are read anew.
        >>> found = adapter_widths(LLAMA_8B, "all-linear")
        >>> found.inputs == 5 * 4096 + 4096 + 14336, found.unshared == 2 * 4096 + 14336, found.matrices
        (True, True, 7.0)
    """
    adapted = [t for t in model.tensors if t.per is Per.TOKEN and is_adapted(t, targets)]
    layers = max(1, model.num_layers)
    seen: dict[tuple[str, tuple[int, ...]], float] = {}
    for t in adapted:
        name = _input_of(t, parallel=model.block.norms == 1)
        if name:
            seen[name, t.layers] = max(seen.get((name, t.layers), 0.0), _read(t))
    return AdapterWidths(
        inputs=sum(map(_read, adapted)) / layers,
        unshared=sum(seen.values()) / layers,
        outputs=sum(_read(t) for t in adapted if t.role.endswith("o_proj")) / layers,
        of_mlp=sum(_read(t) for t in adapted if t.part not in MIXING) / layers,
        matrices=sum(t.used * len(t.layers) for t in adapted) / layers,
    )


def _input_of(tensor: Tensor, *, parallel: bool) -> str:
    """Which tensor of a layer a matrix reads; nothing for attention's output, which is kept anyway."""
    if tensor.role.endswith("o_proj"):
        return ""
    if tensor.role.endswith("down_proj"):
        return f"{tensor.part}.product"
    return "norm" if parallel else str(tensor.part)
