"""Schemas of POST /catalog/models/runnable: machines or limits, and the models of the catalog that they can run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import (
    INTEGER_VALUED,
    BasisName,
    Choice,
    PrintableText,
    RequestModel,
    ResponseModel,
    round_value,
    with_examples,
)
from app.api.schemas.inventory import InventorySpec
from app.api.schemas.origins import ADDED, WHOLE, From, ResultModel
from app.api.schemas.requests import ConstraintsSpec
from app.sizing.question import Deployment
from app.sizing.result import Estimate

Tokens = Annotated[int, Field(ge=1, le=10_000_000), INTEGER_VALUED]
REQUEST_EXAMPLE = {"inventory": [{"accelerator": "rtx a6000", "count": 4}], "q": "qwen3", "limit": 2}


class Use(StrEnum):
    """What a model is run for."""

    ONE_STREAM = "one_stream"  # one request at a time
    THROUGHPUT = "throughput"  # as many requests at once as is fastest
    FULL = "full"  # fine-tuning of all parameters
    LORA = "lora"
    QLORA = "qlora"


UseName = Annotated[str, Choice("Use", Use)]


class RunnableRequest(RequestModel):
    """Machines or limits, and which models to try."""

    model_config = with_examples(REQUEST_EXAMPLE)

    inventory: Annotated[list[InventorySpec], Field(max_length=50)] = Field(
        [],
        description="Your machines. Default: the free ones of the stored inventory; without one, hardware for sale "
        "within the limits of the constraints.",
    )
    constraints: ConstraintsSpec = ConstraintsSpec()
    input_tokens: Tokens = Field(1024, description="Length of the prompts.")
    output_tokens: Tokens = Field(256, description="Length of the outputs.")
    sequence_length: Tokens = Field(2048, description="Tokens per sequence of fine-tuning.")
    min_tokens_per_s: Annotated[float, Field(ge=1e-3, le=1e6)] = Field(
        5.0, description="Slowest stream that counts. Default: about the speed at which people read."
    )
    q: PrintableText | None = Field(None, description="Words that the id of a model contains.")
    limit: Annotated[int, Field(ge=1, le=50), INTEGER_VALUED] = 10
    cursor: PrintableText | None = Field(None, description="`next_cursor` of the previous page.")


USE_EXAMPLE = {
    "use": "one_stream",
    "accelerator": "nvidia-rtx-a6000",
    "accelerators": 4,
    "software": "vllm",
    "weight_format": "int4-awq",
    "replicas": 1,
    "tensor_parallel": 4,
    "pipeline_parallel": 1,
    "expert_parallel": 1,
    "tokens_per_s": 55.9326,
    "low": 41.9,
    "high": 74.6,
    "basis": "calibrated",
}


def rounded_rate(estimate: Estimate) -> Any:
    """Output tokens/s of a service, or trained tokens/s of a run, rounded."""
    speed = estimate.performance
    return None if speed is None else round_value(speed.output_tokens_per_s or speed.tokens_per_s)


def accelerators_in_use(deployment: Deployment) -> int:
    """Accelerators of all replicas, without those of their machines that stay free."""
    total, each = deployment.total_accelerators or 0, deployment.accelerators_per_replica
    return total if each is None or deployment.replicas is None else min(total, each * deployment.replicas)


class ModelUseShown(ResultModel, of=Estimate):
    """The fastest way to run a model on the machines for one use."""

    model_config = with_examples(USE_EXAMPLE)

    use: Annotated[UseName, ADDED]
    accelerator: Annotated[str, From("deployment.accelerator")]
    accelerators: Annotated[int, From("deployment", convert=accelerators_in_use)] = Field(
        description="Accelerators in use, of all replicas."
    )
    software: Annotated[str, ADDED] = Field(description="Serving engine or training framework.")
    weight_format: Annotated[str | None, From("deployment.weight_format")] = Field(
        None, description="Format of the served weights."
    )
    weights_on_host: Annotated[float | None, From("deployment.weights_on_host")] = Field(
        None, description="Share of the weights that stay in host memory, because the accelerators do not hold all."
    )
    replicas: Annotated[int | None, From("deployment.replicas")] = None
    tensor_parallel: Annotated[int | None, From("deployment.tensor_parallel")] = None
    pipeline_parallel: Annotated[int | None, From("deployment.pipeline_parallel")] = None
    data_parallel: Annotated[int | None, From("deployment.data_parallel")] = None
    expert_parallel: Annotated[int | None, From("deployment.expert_parallel")] = None
    tokens_per_s: Annotated[float, From(WHOLE, convert=rounded_rate)] = Field(
        description="Output tokens per second of all replicas; trained tokens per second of fine-tuning."
    )
    low: Annotated[float, From("performance.interval.low")] = Field(description="Lower bound of the 80 % interval.")
    high: Annotated[float, From("performance.interval.high")] = Field(description="Upper bound of the same.")
    basis: Annotated[BasisName, From("performance.basis")]


MODEL_EXAMPLE = {
    "model": "Qwen/Qwen3-32B",
    "parameters": 32762123264,
    "active_parameters": 32762123264,
    "licence": "Apache-2.0",
    "release_date": "2025-04-29",
    "uses": [USE_EXAMPLE],
}


class RunnableModelShown(ResponseModel):
    """A model that the machines can run."""

    model_config = with_examples(MODEL_EXAMPLE)

    model: str = Field(description="Id in the catalog.")
    parameters: int
    active_parameters: int = Field(description="Parameters that one token uses.")
    licence: str | None = Field(None, description="License of the weights; omitted if unknown.")
    release_date: str | None = None
    uses: list[ModelUseShown]


class RunnableResponse(ResponseModel):
    """Models that the machines, or the limits, allow; those with the most parameters first."""

    model_config = with_examples({"items": [MODEL_EXAMPLE], "next_cursor": "Qwen/Qwen3-32B"})

    items: list[RunnableModelShown]
    next_cursor: str | None = Field(
        description="Send it as `cursor` for the next page; null on the last one. A page may have fewer items than "
        "`limit`, or none."
    )


def runnable_model_json(facts: Mapping[str, Any], uses: Mapping[Use, Estimate]) -> dict[str, Any]:
    """A model and what it can be run for, as they are sent."""
    shown = {
        "model": facts["hf_id"],
        "parameters": int(facts["total_params"]),
        "active_parameters": int(facts.get("active_params") or facts["total_params"]),
        "licence": facts.get("licence"),
        "release_date": facts.get("release_date"),
        "uses": [_use_json(use, estimate) for use, estimate in uses.items()],
    }
    return {name: value for name, value in shown.items() if value is not None}


def _use_json(use: Use, estimate: Estimate) -> dict[str, Any]:
    deployment = estimate.deployment
    return ModelUseShown.as_json(
        estimate, given={"use": use.value, "software": deployment.engine or deployment.framework}
    )
