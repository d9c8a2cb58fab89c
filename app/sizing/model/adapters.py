"""Low-rank adapters (LoRA): which matrices they adapt and how many elements they train."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.sizing.model.tensors import Part, Per, Tensor

Targets = str | Sequence[str]

_Q_V_ROLES = ("q_proj", "v_proj", "qkv_proj", "q_b_proj", "kv_b_proj")
MIXER_PARTS = (Part.ATTENTION, Part.RECURRENT)


def is_adapted(tensor: Tensor, targets: Targets) -> bool:
    """Whether an adapter is attached to a matrix.

    `all-linear` adapts every projection, MLP and expert matrix; `attention` adapts the matrices of attention (or of
    the recurrent mixer); `q_v` adapts queries and values. A list names roles ("q_proj", "down_proj"). A fused matrix
    is adapted as a whole.
    """
    if not tensor.quantized:
        return not isinstance(targets, str) and tensor.role in targets and tensor.per is Per.TOKEN
    if targets == "all-linear":
        return True
    if targets == "attention":
        return tensor.part in MIXER_PARTS
    return tensor.role in (_Q_V_ROLES if targets == "q_v" else targets)


def lora_params(tensors: Iterable[Tensor], rank: int, targets: Targets) -> float:
    """Trainable elements of the adapters: rank * (inputs + outputs), summed over the adapted matrices.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    Limits: one rank for all matrices; each expert has its own adapter.
    Check: Llama-3.1-8B, all seven matrices of a layer, as PEFT counts them.
        >>> lora_params(LLAMA_8B.tensors, rank=16, targets="all-linear")
        41943040.0
    """
    return float(rank * sum((t.inputs + t.outputs) * t.count for t in tensors if is_adapted(t, targets)))
