"""Schemas of the engine's scheduler settings: the fields that a deployment may set, and the complete settings in an
answer.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import INTEGER_VALUED, RequestModel, ResponseModel, rounded_fields, with_examples
from app.api.schemas.names import PolicyName
from app.sizing.hardware.engines.scheduling import Policy, SchedulerSettings

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


class SchedulerShown(ResponseModel):
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


def scheduler_json(s: SchedulerSettings | None) -> dict[str, Any] | None:
    """Scheduler settings as JSON."""
    if s is None:
        return None
    policy = None if s.policy is None else s.policy.value
    return rounded_fields(**{**asdict(s), "policy": policy}) or None
