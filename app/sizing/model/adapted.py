"""A base model with the adapters that are loaded beside it for serving."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.model.adapters import lora_params
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.tensors import Part, Per, Tensor

ROLE = "adapters"
ADAPTER_ELEMENT_BYTES = 2  # engines keep them in 16 bit, whatever the base is in


def served_adapter_params(model: ModelArchitecture, rank: int) -> int:
    """Elements of one adapter: on every projection and MLP matrix, on no routed expert.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    Limits: adapters on fewer matrices are smaller; engines set room aside for all that they adapt.
    Check: Llama-3.1-8B.
        >>> served_adapter_params(LLAMA_8B, 16)
        41943040
    """
    beside = (t for t in model.tensors if t.part is not Part.ROUTED_EXPERTS)
    return int(lora_params(beside, rank, "all-linear"))


def with_adapters(model: ModelArchitecture, *, rank: int, loaded: int) -> ModelArchitecture:
    """A model beside which so many adapters stay loaded: each is stored, a token multiplies its own, and a step reads
    all of them.

    Source: counted.
    Limits: a batch of few requests reads fewer; loading one that is not there is not counted.
    Check: eight adapters of Llama-3.1-8B are 0.67 GB, and a token multiplies one of them.
        >>> adapted = with_adapters(LLAMA_8B, rank=16, loaded=8)
        >>> 2 * (adapted.total_params - LLAMA_8B.total_params) / 1e9
        0.67108864
        >>> adapted.matmul_params - LLAMA_8B.matmul_params
        41943040.0
    """
    size = served_adapter_params(model, rank)
    beside = Tensor(ROLE, Part.OTHER, size, 1, copies=loaded, per=Per.TOKEN)
    return replace(model, tensors=(*model.tensors, beside))


def loaded_adapters(model: ModelArchitecture) -> Tensor | None:
    """The adapters loaded beside a model; None where there are none."""
    return next((t for t in model.tensors if t.role == ROLE), None)
