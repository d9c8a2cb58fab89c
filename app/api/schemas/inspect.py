"""Schemas of model inspection: parameters, memory and FLOPs of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, round_value
from app.api.schemas.origins import ADDED, WHOLE, From, ResultModel
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

EXACT = 15  # significant digits that show a whole number of bytes or FLOPs exactly


def _counted(
    count: Callable[[ModelArchitecture], float], *, when: Callable[[ModelArchitecture], bool] | None = None
) -> From:
    return From(WHOLE, convert=lambda model: round_value(float(count(model)), EXACT), when=when)


def _gib_counted(count: Callable[[ModelArchitecture], float]) -> From:
    return From(WHOLE, convert=lambda model: _to_gib(count(model)))


def _to_gib(value_bytes: float) -> Any:
    return round_value(value_bytes / GIB)


def _has_tokens(model: ModelArchitecture) -> bool:
    return model.sample is None


class ShapeShown(ResultModel, of=ModelArchitecture):
    """The shape that the engine calculates with; `mlp_width` is the width one token passes through, including
    experts.
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: Annotated[int, From("num_heads")]
    num_key_value_heads: Annotated[int, From("kv_heads")]
    head_dim: int
    mlp_width: Annotated[float, From(times=1.0, digits=EXACT)]
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


class ActivationsShown(ResultModel, of=ModelArchitecture):
    """Bytes that one token keeps for the backward pass in an average layer, in 16 bit, without a materialized attention
    matrix.
    """

    fused: Annotated[float, _counted(lambda model: model.activation_bytes_per_layer())]
    eager: Annotated[float, _counted(lambda model: model.activation_bytes_per_layer(fused=False))]


class LogitsShown(ResultModel, of=ModelArchitecture):
    """Logits memory in bytes per token of a batch: FP32 logits when sampling tokens, and the peak of the loss in
    training.

    `vocabulary_gib` is the memory of the embedding tables and the output head in 16 bit.
    """

    vocabulary_gib: Annotated[float, _gib_counted(vocabulary_bytes)]

    serving_bytes_per_token: Annotated[float, From(WHOLE, convert=sampled_logits_bytes)]
    training_bytes_per_token: Annotated[float, _counted(lambda model: model.logits_bytes(1))]


class LoraShown(ResponseModel):
    """Trainable parameters of adapters at a rank, by target matrix."""

    rank: int
    parameters: dict[str, int]


class NativeShown(ResultModel, of=ModelArchitecture):
    """The published checkpoint: format of its quantized matrices, and its size including scales and unquantized
    tensors.
    """

    format: Annotated[str, From("native_format")]
    checkpoint_gib: Annotated[float, _gib_counted(lambda model: model.published_bytes())]


class ImageShown(ResponseModel):
    """An image in the vision tower."""

    width: int
    height: int
    tokens: int
    patches: int
    tower_flops: float


class SampleShown(ResultModel, of=SampleWork):
    """One sample: passes through the network, each of `flops_per_pass`, plus work that runs once."""

    unit: str
    described: Annotated[str, ADDED]
    passes: float
    flops_per_pass: Annotated[float, From("flops")]
    flops_once: Annotated[float, From("extra_flops")]
    activation_mib: Annotated[float, From("live_bytes", per=MIB)]
    sized_by: Annotated[list[str], ADDED] = Field(description="Fields of `sample` that determine its work.")


def _weights_gib(model: ModelArchitecture) -> dict[str, Any]:
    return {f.name: _to_gib(model.weights_bytes(f)) for f in WEIGHT_FORMATS.values()}


def _sample_json(model: ModelArchitecture) -> dict[str, Any]:
    """One sample of the model, with the fields of a request that determine its work."""
    sized_by = [] if model.law is None else list(model.law.size_fields)
    return SampleShown.as_json(model.sample, given={"described": describe_sample(model), "sized_by": sized_by})


class InspectResponse(ResultModel, of=ModelArchitecture):
    """Counts of a model. `flops_per_token` is one forward pass per token, excluding attention over the context."""

    name: str
    source: str
    kind: Annotated[str, From(convert=str)] = Field(
        description="decoder: generates tokens; encoder: one pass over the tokens; samples: images, video, speech."
    )
    family: str
    parameters: Annotated[int, From("total_params")]
    active_parameters: Annotated[int, From("active_params")]
    parts: dict[str, int] = Field(description="Parameters by component; they sum to the total.")
    kv_cache_bytes_per_token: Annotated[float, _counted(lambda model: model.kv_cache_bytes_per_token())]
    state_bytes_per_sequence: Annotated[float, From(times=1.0, digits=EXACT)]
    weights_gib: Annotated[dict[str, float], From(WHOLE, convert=_weights_gib)]
    native: Annotated[NativeShown, From(WHOLE)]
    assumed: list[str]
    flops_per_sample: Annotated[float | None, From("sample.total_flops", when=lambda m: m.sample is not None)] = None
    sample: Annotated[SampleShown | None, From(WHOLE, convert=_sample_json, when=lambda m: m.sample is not None)] = None
    mtp_parameters: Annotated[int, From("mtp_params", when=_has_tokens)] = Field(
        0,
        description="Parameters of multi-token prediction layers, not in the total: only loaded for speculative "
        "decoding.",
    )
    shape: Annotated[ShapeShown | None, From(WHOLE, when=_has_tokens)] = None
    kv_cache_bytes_per_token_beyond_window: Annotated[float, From(times=1.0, digits=EXACT, when=_has_tokens)] = 0.0
    cross_kv_bytes_per_source_token: Annotated[float, From(times=1.0, digits=EXACT, when=_has_tokens)] = 0.0
    flops_per_token: Annotated[float | None, _counted(matrix_flops_per_token, when=_has_tokens)] = None
    by_context: Annotated[list[ContextShown], ADDED] = []
    activation_bytes_per_token_and_layer: Annotated[ActivationsShown | None, From(WHOLE, when=_has_tokens)] = None
    lora: Annotated[LoraShown | None, ADDED] = None
    logits: Annotated[
        LogitsShown | None, From(WHOLE, when=lambda m: m.kind is ModelKind.DECODER and _has_tokens(m))
    ] = None
    flops_per_source_token: Annotated[
        float | None,
        _counted(matrix_flops_per_source_token, when=lambda m: bool(m.source_matmul_params) and _has_tokens(m)),
    ] = None
    image: Annotated[ImageShown | None, ADDED] = None


def inspection_json(
    model: ModelArchitecture,
    *,
    contexts: Sequence[int],
    rank: int,
    targets: str | tuple[str, ...],
    image: tuple[int, int],
    magnitudes: bool = False,
) -> dict[str, Any]:
    """Every count of a model as JSON; counts that do not apply to this kind of model are omitted."""
    if model.sample is not None:
        return InspectResponse.as_json(model)
    given: dict[str, Any] = {
        "by_context": [
            {
                "context_tokens": c,
                "kv_cache_gib": _to_gib(model.cache_bytes(c)),
                "forward_flops_per_token": round_value(model.flops_per_token(c)),
                "training_flops_per_token": round_value(model.training_flops_per_token(c)),
            }
            for c in contexts
        ],
        "lora": {"rank": rank, "parameters": lora_params_by_target(model, rank, targets, magnitudes=magnitudes)},
    }
    if model.images is not None:
        width, height = image
        given["image"] = {
            "width": width,
            "height": height,
            "tokens": model.images.token_count(width, height),
            "patches": model.images.patch_count(width, height),
            "tower_flops": round_value(model.image_flops(width, height)),
        }
    return InspectResponse.as_json(model, given=given)
