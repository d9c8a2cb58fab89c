"""A base model with LoRA adapters loaded for serving."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.model.architecture import ModelArchitecture, lora_params
from app.sizing.model.tensors import Part, Per, Tensor

ADAPTER_ROLE = "adapters"
ADAPTER_ELEMENT_BYTES = 2  # engines keep adapters in 16 bit, whatever the format of the base


def served_adapter_params(model: ModelArchitecture, rank: int) -> int:
    """Elements of one adapter on every projection and MLP matrix, but on no routed expert.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    Limits: adapters on fewer matrices are smaller, but engines reserve memory for every matrix that they can adapt.
    Check: Llama-3.1-8B.
        >>> served_adapter_params(LLAMA_8B, 16)
        41943040
    """
    adapted = (t for t in model.tensors if t.part is not Part.ROUTED_EXPERTS)
    return int(lora_params(adapted, rank, "all-linear"))


def with_adapters(model: ModelArchitecture, *, rank: int, loaded: int) -> ModelArchitecture:
    """The model with `loaded` adapters in memory. All are stored, a token multiplies one, and a step reads all.

    Limits: a batch of few requests reads fewer adapters; the time to load a missing adapter is not counted.
    Check: eight adapters of Llama-3.1-8B are 0.67 GB, and a token multiplies one of them.
        >>> adapted = with_adapters(LLAMA_8B, rank=16, loaded=8)
        >>> 2 * (adapted.total_params - LLAMA_8B.total_params) / 1e9
        0.67108864
        >>> adapted.matmul_params - LLAMA_8B.matmul_params
        41943040.0
    """
    size = served_adapter_params(model, rank)
    adapters = Tensor(ADAPTER_ROLE, Part.OTHER, size, 1, copies=loaded, per=Per.TOKEN)
    return replace(model, tensors=(*model.tensors, adapters))


def loaded_adapters(model: ModelArchitecture) -> Tensor | None:
    """The tensor of the loaded adapters, or None if the model has none."""
    return next((t for t in model.tensors if t.role == ADAPTER_ROLE), None)
