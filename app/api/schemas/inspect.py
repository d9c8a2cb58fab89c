"""Schemas of model inspection: parameters, memory and FLOPs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, round_value
from app.sizing.columns import GIB, MIB
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counts import (
    describe_sample,
    lora_params_by_target,
    matrix_flops_per_source_token,
    matrix_flops_per_token,
    sampled_logits_bytes,
    vocabulary_bytes,
)
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.sample import SampleWork


class ShapeShown(ResponseModel):
    """The shape that the engine calculates with; `mlp_width` is the width one token passes through, including
    experts.
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    mlp_width: float
    vocab_size: int
    num_experts: int
    experts_per_token: int
    max_context_tokens: int | None


class ContextShown(ResponseModel):
    """Cost of one sequence at a context length: cache and state in 16 bit, FLOPs of one more token, training FLOPs per
    token.
    """

    context_tokens: int
    kv_cache_gib: float
    forward_flops_per_token: float
    training_flops_per_token: float


class ActivationsShown(ResponseModel):
    """Bytes that one token keeps for the backward pass in an average layer, in 16 bit, without a materialized attention
    matrix.
    """

    fused: float
    eager: float


class LogitsShown(ResponseModel):
    """Logits memory in bytes per token of a batch: FP32 logits when sampling tokens, and the peak of the loss in
    training.

    `vocabulary_gib` is the memory of the embedding tables and the output head in 16 bit.
    """

    vocabulary_gib: float

    serving_bytes_per_token: float
    training_bytes_per_token: float


class LoraShown(ResponseModel):
    """Trainable parameters of adapters at a rank, by target matrix."""

    rank: int
    parameters: dict[str, int]


class NativeShown(ResponseModel):
    """The published checkpoint: format of its quantized matrices, and its size including scales and unquantized
    tensors.
    """

    format: str
    checkpoint_gib: float


class ImageShown(ResponseModel):
    """An image in the vision tower."""

    width: int
    height: int
    tokens: int
    patches: int
    tower_flops: float


class SampleShown(ResponseModel):
    """One sample: passes through the network, each of `flops_per_pass`, plus work that runs once."""

    unit: str
    described: str
    passes: float
    flops_per_pass: float
    flops_once: float
    activation_mib: float
    sized_by: list[str] = Field(description="Fields of `sample` that determine its work.")


class InspectResponse(ResponseModel):
    """Counts of a model. `flops_per_token` is one forward pass per token, excluding attention over the context."""

    name: str
    source: str
    kind: str = Field(
        description="decoder: generates tokens; encoder: one pass over the tokens; samples: images, video, speech."
    )
    family: str
    parameters: int
    active_parameters: int
    parts: dict[str, int] = Field(description="Parameters by component; they sum to the total.")
    mtp_parameters: int = Field(
        0,
        description="Parameters of multi-token prediction layers, not in the total: only loaded for speculative "
        "decoding.",
    )
    shape: ShapeShown | None = None
    kv_cache_bytes_per_token: float
    kv_cache_bytes_per_token_beyond_window: float = 0.0
    cross_kv_bytes_per_source_token: float = 0.0
    state_bytes_per_sequence: float
    flops_per_token: float | None = None
    flops_per_source_token: float | None = None
    by_context: list[ContextShown] = []
    activation_bytes_per_token_and_layer: ActivationsShown | None = None
    logits: LogitsShown | None = None
    weights_gib: dict[str, float]
    native: NativeShown
    lora: LoraShown | None = None
    image: ImageShown | None = None
    sample: SampleShown | None = None
    flops_per_sample: float | None = None
    assumed: list[str]


def inspection_json(
    model: ModelArchitecture,
    *,
    contexts: Sequence[int],
    rank: int,
    targets: str | tuple[str, ...],
    image: tuple[int, int],
) -> dict[str, Any]:
    """Every count of a model as JSON; counts that do not apply to this kind of model are omitted."""
    shown: dict[str, Any] = {
        "name": model.name,
        "source": model.source,
        "kind": model.kind.value,
        "family": model.family,
        "parameters": model.total_params,
        "active_parameters": model.active_params,
        "parts": model.parts,
        "kv_cache_bytes_per_token": _to_exact(model.kv_cache_bytes_per_token()),
        "state_bytes_per_sequence": _to_exact(model.state_bytes_per_sequence),
        "weights_gib": {f.name: _to_gib(model.weights_bytes(f)) for f in WEIGHT_FORMATS.values()},
        "native": {"format": model.native_format, "checkpoint_gib": _to_gib(model.published_bytes())},
        "assumed": list(model.assumed),
    }
    if model.sample is not None:
        return shown | _sample_counts_json(model, model.sample)
    return shown | _token_counts_json(model, contexts, rank, targets, image)


def _to_exact(value: float) -> Any:
    return round_value(float(value), 15)


def _to_gib(value_bytes: float) -> Any:
    return round_value(value_bytes / GIB)


def _sample_counts_json(model: ModelArchitecture, work: SampleWork) -> dict[str, Any]:
    return {
        "flops_per_sample": round_value(work.total_flops),
        "sample": {
            "unit": work.unit,
            "described": describe_sample(model),
            "passes": round_value(work.passes),
            "flops_per_pass": round_value(work.flops),
            "flops_once": round_value(work.extra_flops),
            "activation_mib": round_value(work.live_bytes / MIB),
            "sized_by": list(model.law.size_fields) if model.law is not None else [],
        },
    }


def _token_counts_json(
    model: ModelArchitecture, contexts: Sequence[int], rank: int, targets: str | tuple[str, ...], image: tuple[int, int]
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "mtp_parameters": model.mtp_params,
        "shape": _shape_json(model),
        "kv_cache_bytes_per_token_beyond_window": _to_exact(model.kv_cache_bytes_per_token_beyond_window),
        "cross_kv_bytes_per_source_token": _to_exact(model.cross_kv_bytes_per_source_token),
        "flops_per_token": _to_exact(matrix_flops_per_token(model)),
        "by_context": [
            {
                "context_tokens": c,
                "kv_cache_gib": _to_gib(model.cache_bytes(c)),
                "forward_flops_per_token": round_value(model.flops_per_token(c)),
                "training_flops_per_token": round_value(model.training_flops_per_token(c)),
            }
            for c in contexts
        ],
        "activation_bytes_per_token_and_layer": {
            "fused": _to_exact(model.activation_bytes_per_layer()),
            "eager": _to_exact(model.activation_bytes_per_layer(fused=False)),
        },
        "lora": {"rank": rank, "parameters": lora_params_by_target(model, rank, targets)},
    }
    if model.kind is ModelKind.DECODER:
        shown["logits"] = {
            "vocabulary_gib": _to_gib(vocabulary_bytes(model)),
            "serving_bytes_per_token": sampled_logits_bytes(model),
            "training_bytes_per_token": _to_exact(model.logits_bytes(1)),
        }
    if model.source_matmul_params:
        shown["flops_per_source_token"] = _to_exact(matrix_flops_per_source_token(model))
    if model.images is not None:
        width, height = image
        shown["image"] = {
            "width": width,
            "height": height,
            "tokens": model.images.token_count(width, height),
            "patches": model.images.patch_count(width, height),
            "tower_flops": round_value(model.image_flops(width, height)),
        }
    return shown


def _shape_json(model: ModelArchitecture) -> dict[str, Any]:
    return {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "mlp_width": _to_exact(model.mlp_width),
        "vocab_size": model.vocab_size,
        "num_experts": model.num_experts,
        "experts_per_token": model.experts_per_token,
        "max_context_tokens": model.max_context_tokens,
    }
