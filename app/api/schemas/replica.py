"""Schemas of a deployment's parts: machine and price, replicas, pools, scheduler settings and training recipe."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from app.api.schemas.base import (
    INTEGER_VALUED,
    AdapterPrecisionName,
    GradientsName,
    KernelsName,
    KvFormatName,
    LossName,
    Name,
    OptimizerImplementationName,
    PackingName,
    PolicyName,
    PricingName,
    RecomputationName,
    RequestModel,
    ResponseModel,
    WeightFormatName,
    WeightsName,
    with_examples,
)
from app.api.schemas.origins import EMPTY, WHOLE, From, ResultModel
from app.sizing.columns import GBIT, MIB
from app.sizing.hardware.engines.record import Policy, SchedulerSettings
from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.recipes import RecipeSettings, TrainingRecipe
from app.sizing.model.formats import AUTO_KV
from app.sizing.question import Deployment, Pools
from app.sizing.result import PoolLoad, PoolSplit, Transfer


class RecipeSpec(RequestModel):
    """Differences from the framework's own recipe, which GET /catalog/frameworks shows.

    `name` and `source` are accepted because answers contain them; they have no effect.
    """

    model_config = with_examples({"loss": "chunked", "recomputation": "full"})

    loss: LossName | None = None
    kernels: KernelsName | None = None
    weights: WeightsName | None = None
    gradients: GradientsName | None = None
    recomputation: RecomputationName | None = Field(
        None,
        description="What activation_checkpointing recomputes; every value except none and full is a variant of "
        "selective.",
    )
    optimizer_implementation: OptimizerImplementationName | None = None
    adapter_precision: AdapterPrecisionName | None = None
    adapter_dropout: bool | None = None
    kbit_widening: bool | None = Field(
        None, description="For qlora: whether embeddings, head, norms and the residual stream are in 32 bit."
    )
    packing: PackingName | None = None
    name: Annotated[str, Field(max_length=80)] | None = None
    source: Annotated[str, Field(max_length=300)] | None = None

    def to_recipe(self) -> RecipeSettings:
        return RecipeSettings(**self.model_dump(exclude={"name", "source"}))


class RecipeListed(ResponseModel):
    """A framework's default recipe from one version on."""

    name: str = Field(description="Name of the framework and the version that it was read from.")
    since: str | None = Field(description="First version that it applies to; null: every known earlier version.")
    methods: list[str] = Field(description="Methods that it applies to; empty: all.")
    loss: LossName
    kernels: KernelsName
    weights: WeightsName
    gradients: GradientsName
    selective: str = Field(description="What activation_checkpointing selective recomputes; none: not supported.")
    recomputation: RecomputationName = Field(description="What it recomputes by default.")
    optimizer_implementation: OptimizerImplementationName
    adapter_precision: AdapterPrecisionName
    adapter_dropout: bool
    kbit_widening: bool
    offloads_checkpoints: bool
    packing: PackingName
    source: str
    as_of: str
    sources: dict[str, str] = Field(description="Sources of individual fields.")


def listed_json(recipe: TrainingRecipe) -> dict[str, Any]:
    """A framework's recipe in the catalog as JSON."""
    names = (name for name in RecipeListed.model_fields if name not in ("since", "methods", "sources"))
    since = None if recipe.since is None else ".".join(map(str, recipe.since))
    values = {name: getattr(recipe, name) for name in names}
    return values | {"since": since, "methods": list(recipe.methods), "sources": dict(recipe.sources)}


class RecipeShown(ResultModel, of=RecipeSettings):
    """The complete recipe for which memory was calculated, with its framework and source. A rejected recipe is shown as
    requested.
    """

    loss: LossName | None = None
    kernels: KernelsName | None = None
    weights: WeightsName | None = None
    gradients: GradientsName | None = None
    recomputation: RecomputationName | None = None
    optimizer_implementation: OptimizerImplementationName | None = None
    adapter_precision: AdapterPrecisionName | None = None
    adapter_dropout: bool | None = None
    kbit_widening: bool | None = None
    packing: PackingName | None = None
    name: str | None = None
    source: str | None = None


Degree = Annotated[int, Field(ge=1, le=1_000_000), INTEGER_VALUED]
# Far above any real fleet: a count given in replicas is returned in accelerators and must be accepted again.
MAX_COUNT = 10**12
Count = Annotated[int, Field(ge=1, le=MAX_COUNT), INTEGER_VALUED]


class OfferSpec(RequestModel):
    """The catalog price to use."""

    provider: Name | None = None
    region: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    pricing_model: PricingName | None = None
    instance_type: Annotated[str, Field(min_length=1, max_length=120)] | None = None


class OfferShown(ResultModel, of=Deployment):
    """The catalog price that was used."""

    provider: str
    region: str
    pricing_model: PricingName
    instance_type: str | None = None


Steps = Annotated[int, Field(ge=0, le=100_000), INTEGER_VALUED]
EXAMPLE: dict[str, Any] = {"max_batched_tokens": 8192, "max_sequences": 256, "policy": "mixed", "prefix_cache": True}
WHOLE_EXAMPLE: dict[str, Any] = {
    **EXAMPLE,
    "receive_interval_steps": 1,
    "batch_wait_steps": 0,
    "batch_wait_share": 0,
    "planning_lag_steps": 1,
}


class SchedulerSpec(RequestModel):
    """Launch settings of the engine's scheduler. Omitted fields use the defaults of the engine's version on this
    device.
    """

    model_config = with_examples(EXAMPLE)

    max_batched_tokens: Annotated[int, Field(ge=16, le=10_000_000), INTEGER_VALUED] | None = Field(
        None,
        description="Maximum tokens per step (prefill plus decode); same as the deployment's max_batched_tokens.",
    )
    max_sequences: Annotated[int, Field(ge=1, le=1_000_000), INTEGER_VALUED] | None = Field(
        None, description="Maximum number of concurrent sequences (max_num_seqs in vLLM); same as max_batch."
    )
    policy: PolicyName | None = Field(
        None,
        description="mixed: prompt chunks share steps with decode (continuous batching with chunked prefill); "
        "prefill_first: prompts run first, in separate steps; static: a batch starts and ends together.",
    )
    prefix_cache: bool | None = Field(
        None,
        description="Whether prompts reuse cached prefixes of earlier ones. false: cached_prefix_fraction has no "
        "effect.",
    )
    receive_interval_steps: Annotated[int, Field(ge=1, le=100_000), INTEGER_VALUED] | None = Field(
        None, description="Decode steps between two checks for new requests."
    )
    batch_wait_steps: Steps | None = Field(None, description="Steps that prompts wait for a batch to fill; 0: none.")
    batch_wait_share: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Share of a full step's tokens at which prompts stop waiting."
    )
    planning_lag_steps: Annotated[int, Field(ge=0, le=16), INTEGER_VALUED] | None = Field(
        None, description="Steps that are planned ahead of the running step."
    )

    def to_settings(self) -> SchedulerSettings:
        fields: dict[str, Any] = self.model_dump(exclude={"policy"})
        return SchedulerSettings(policy=None if self.policy is None else Policy(self.policy), **fields)


class SchedulerShown(ResultModel, of=SchedulerSettings):
    """Scheduler settings, complete together with max_batch and max_batched_tokens; engine defaults where nothing was
    set.
    """

    model_config = with_examples(WHOLE_EXAMPLE)

    max_batched_tokens: int | None = None
    max_sequences: int | None = None
    policy: PolicyName | None = None
    prefix_cache: bool | None = None
    receive_interval_steps: int | None = None
    batch_wait_steps: int | None = None
    batch_wait_share: float | None = None
    planning_lag_steps: int | None = None


def _drop_auto(value: Any) -> Any:
    """The value; None for "auto", with which engines choose the format themselves."""
    return None if value == AUTO_KV else value


OptionalKvFormat = Annotated[KvFormatName | None, BeforeValidator(_drop_auto)]


class ReplicaSpec(RequestModel):
    """Identical replicas; omitted fields are chosen by the service and shown in the answer."""

    accelerator: Name | None = None
    system: Name | None = None
    offer: OfferSpec | None = None
    accelerators_per_replica: Degree | None = None
    replicas: Count | None = None
    spare_replicas: Annotated[int, Field(ge=0, le=MAX_COUNT), INTEGER_VALUED] | None = None
    nodes: Count | None = None
    total_accelerators: Count | None = None
    tensor_parallel: Degree | None = None
    pipeline_parallel: Degree | None = None
    data_parallel: Degree | None = None
    context_parallel: Degree | None = None
    expert_parallel: Degree | None = None
    weight_format: WeightFormatName | None = None
    kv_format: OptionalKvFormat = None
    max_batch: Degree | None = None
    max_batched_tokens: Annotated[int, Field(ge=16, le=10_000_000), INTEGER_VALUED] | None = None
    scheduler: SchedulerSpec | None = None
    memory_fraction: Annotated[float, Field(gt=0.05, le=1)] | None = None
    skip_mm_profiling: bool | None = None

    def explicit_fields(self, *excluded: str) -> dict[str, Any]:
        """The fields under the engine's names, without the fields `apart`."""
        fields = self.model_dump(exclude={"offer", "scheduler", *excluded})
        if self.offer is not None:
            fields |= self.offer.model_dump()
            pricing = self.offer.pricing_model
            fields["pricing_model"] = None if pricing is None else PricingModel(pricing)
        if self.scheduler is not None:
            fields["scheduler"] = self.scheduler.to_settings()
            fields["max_batch"] = self.max_batch or self.scheduler.max_sequences
            fields["max_batched_tokens"] = self.max_batched_tokens or self.scheduler.max_batched_tokens
        return fields


# An estimate of the returned deployment must see the same numbers.
UNROUNDED = From(exact=True)
OFFERED = From(WHOLE, when=lambda d: None not in (d.provider, d.region, d.pricing_model))
OWN_SCHEDULER = From(omit=EMPTY)


class ReplicaShown(ResultModel, of=Deployment):
    """Identical replicas, complete."""

    accelerator: str
    system: str | None = None
    accelerators_per_replica: int | None = None
    replicas: int | None = None
    spare_replicas: int | None = None
    nodes: int | None = None
    total_accelerators: int | None = Field(
        None, description="Number of accelerators that are paid for; machines are rented and bought as a whole."
    )
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    context_parallel: int | None = None
    expert_parallel: int | None = None
    weight_format: WeightFormatName | None = None
    kv_format: KvFormatName | None = None
    max_batch: int | None = None
    max_batched_tokens: int | None = None
    memory_fraction: Annotated[float | None, UNROUNDED] = None
    skip_mm_profiling: bool | None = None
    weights_on_host: Annotated[float | None, UNROUNDED] = Field(
        None, description="Share of the weights in host memory."
    )


POOL: dict[str, Any] = {"accelerators_per_replica": 4, "tensor_parallel": 4, "replicas": 2, "weight_format": "fp8"}
POOLS: dict[str, Any] = {"prefill": POOL, "decode": {**POOL, "accelerators_per_replica": 8, "tensor_parallel": 8}}
LOAD = {"utilization": 0.61, "requests_per_s_capacity": 8.2}
TRANSFER = {
    "mib_per_request": 320,
    "ms": 2.4,
    "link": "network",
    "gbit_per_s": 1120,
    "requests_per_s_capacity": 834,
    "utilization": 0.006,
}


class PoolSpec(ReplicaSpec):
    """One pool. By default it uses the deployment's accelerator and as many replicas as the load requires."""

    model_config = with_examples(POOL)

    kv_format: OptionalKvFormat = Field(
        None, description="KV cache format; the same in both pools, because the cache is sent without conversion."
    )
    weights_on_host: Annotated[float, Field(ge=0, le=0)] | None = None

    def to_deployment(self, accelerator: str) -> Deployment:
        return Deployment(**{**self.explicit_fields(), "accelerator": self.accelerator or accelerator})


class PoolsSpec(RequestModel):
    """Prefill replicas that read prompts, and decode replicas that generate tokens from the transferred KV caches."""

    model_config = with_examples(POOLS)

    prefill: PoolSpec
    decode: PoolSpec

    def to_pools(self, accelerator: str) -> Pools:
        return Pools(self.prefill.to_deployment(accelerator), self.decode.to_deployment(accelerator))


class PoolShown(ReplicaShown):
    """One complete pool."""

    model_config = with_examples({**POOL, "accelerator": "nvidia-h100-sxm5-80gb"})

    offer: Annotated[OfferShown | None, OFFERED] = None
    scheduler: Annotated[SchedulerShown | None, OWN_SCHEDULER] = None


class PoolsShown(ResultModel, of=Pools):
    """Both complete pools."""

    model_config = with_examples(
        {name: {**pool, "accelerator": "nvidia-h100-sxm5-80gb"} for name, pool in POOLS.items()}
    )

    prefill: PoolShown
    decode: PoolShown


class PoolLoadShown(ResultModel, of=PoolLoad):
    """Utilization of a pool, and its capacity within its part of the limits."""

    model_config = with_examples(LOAD)

    utilization: float | None = None
    requests_per_s_capacity: float


class TransferShown(ResultModel, of=Transfer):
    """Transfer of an average prompt's KV cache between the pools."""

    model_config = with_examples(TRANSFER)

    mib_per_request: Annotated[float, From("request_bytes", per=MIB)]
    ms: Annotated[float, From("seconds", times=1e3)] = Field(
        description="Transfer time; included in every time to first token."
    )
    link: str = Field(description="Link of the transfer: network, or scale_up if both pools share a domain.")
    gbit_per_s: Annotated[float, From("bytes_per_s", per=GBIT)] = Field(
        description="Total bandwidth of a replica's accelerators, which send in parallel."
    )
    requests_per_s_capacity: float
    utilization: float | None = None


class SplitShown(ResultModel, of=PoolSplit):
    """Load of both pools and of the transfer between them."""

    model_config = with_examples({"prefill": LOAD, "decode": LOAD, "transfer": TRANSFER})

    prefill: PoolLoadShown
    decode: PoolLoadShown
    transfer: TransferShown
