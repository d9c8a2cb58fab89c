"""Schemas of disaggregated prefill and decode: the pools of a deployment and their load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import RequestModel, ResponseModel, rounded_fields, with_examples
from app.api.schemas.names import KvFormatName
from app.api.schemas.replica import ReplicaShown, ReplicaSpec
from app.sizing.question import Deployment, Pools
from app.sizing.units import GBIT, MIB
from app.sizing.values.pools import PoolLoad, PoolSplit, Transfer

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

    kv_format: KvFormatName | None = Field(
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


class PoolsShown(ResponseModel):
    """Both complete pools."""

    model_config = with_examples(
        {name: {**pool, "accelerator": "nvidia-h100-sxm5-80gb"} for name, pool in POOLS.items()}
    )

    prefill: PoolShown
    decode: PoolShown


class PoolLoadShown(ResponseModel):
    """Utilization of a pool, and its capacity within its part of the limits."""

    model_config = with_examples(LOAD)

    utilization: float | None = None
    requests_per_s_capacity: float


class TransferShown(ResponseModel):
    """Transfer of an average prompt's KV cache between the pools."""

    model_config = with_examples(TRANSFER)

    mib_per_request: float
    ms: float = Field(description="Transfer time; included in every time to first token.")
    link: str = Field(description="Link of the transfer: network, or scale_up if both pools share a domain.")
    gbit_per_s: float = Field(description="Total bandwidth of a replica's accelerators, which send in parallel.")
    requests_per_s_capacity: float
    utilization: float | None = None


class SplitShown(ResponseModel):
    """Load of both pools and of the transfer between them."""

    model_config = with_examples({"prefill": LOAD, "decode": LOAD, "transfer": TRANSFER})

    prefill: PoolLoadShown
    decode: PoolLoadShown
    transfer: TransferShown


def pools_json(pools: Pools, deployment_json: Callable[[Deployment], dict[str, Any]]) -> dict[str, Any]:
    """Both pools of a deployment as JSON."""
    return {name: pool_json(deployment_json(getattr(pools, name))) for name in ("prefill", "decode")}


def pool_json(deployment: dict[str, Any]) -> dict[str, Any]:
    """A pool's deployment as JSON, without the fields that both pools share with the deployment."""
    return {name: value for name, value in deployment.items() if name in PoolShown.model_fields}


def split_json(split: PoolSplit) -> dict[str, Any]:
    """Load of both pools and of the transfer between them as JSON."""
    pools: dict[str, PoolLoad] = {"prefill": split.prefill, "decode": split.decode}
    return {
        **{name: rounded_fields(**asdict(load)) for name, load in pools.items()},
        "transfer": transfer_json(split.transfer),
    }


def transfer_json(transfer: Transfer) -> dict[str, Any]:
    """The transfer between the pools as JSON."""
    return rounded_fields(
        mib_per_request=transfer.request_bytes / MIB,
        ms=transfer.seconds * 1e3,
        link=transfer.link,
        gbit_per_s=transfer.bytes_per_s / GBIT,
        requests_per_s_capacity=transfer.requests_per_s_capacity,
        utilization=transfer.utilization,
    )
