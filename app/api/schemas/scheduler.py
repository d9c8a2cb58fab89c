"""Settings of an engine's scheduler on the wire: what a deployment sets of them, and all of them in an answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import WHOLE, Shown, Wire, present, shown_as
from app.api.schemas.names import PolicyName
from app.sizing.hardware.engines.scheduling import Policy, SchedulerSettings

Steps = Annotated[int, Field(ge=0, le=100_000), WHOLE]
EXAMPLE: dict[str, Any] = {"max_batched_tokens": 8192, "max_sequences": 256, "policy": "mixed", "prefix_cache": True}
WHOLE_EXAMPLE: dict[str, Any] = {
    **EXAMPLE,
    "receive_interval_steps": 1,
    "batch_wait_steps": 0,
    "batch_wait_share": 0,
    "planning_lag_steps": 1,
}


class SchedulerSpec(Wire):
    """How the engine is launched; what is left out is the engine's own at its version, on such a device."""

    model_config = shown_as(EXAMPLE)

    max_batched_tokens: Annotated[int, Field(ge=16, le=10_000_000), WHOLE] | None = Field(
        None, description="Most tokens of a step, prompts and decoding together; the same as deployment's."
    )
    max_sequences: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] | None = Field(
        None, description="Most sequences that run at once; the same as max_batch."
    )
    policy: PolicyName | None = Field(
        None,
        description="mixed: chunks of prompts share steps with decoding; prefill_first: prompts have steps of their "
        "own, first; static: a batch starts and ends together.",
    )
    prefix_cache: bool | None = Field(
        None, description="Whether prompts find what earlier ones left. false: cached_prefix_fraction counts nothing."
    )
    receive_interval_steps: Annotated[int, Field(ge=1, le=100_000), WHOLE] | None = Field(
        None, description="Decode steps between two looks for new requests."
    )
    batch_wait_steps: Steps | None = Field(None, description="Steps that prompts wait for company; 0: none.")
    batch_wait_share: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Share of a full step's tokens from which they no longer wait."
    )
    planning_lag_steps: Annotated[int, Field(ge=0, le=16), WHOLE] | None = Field(
        None, description="Steps that are planned ahead of the one that runs."
    )

    def to_settings(self) -> SchedulerSettings:
        said: dict[str, Any] = self.model_dump(exclude={"policy"})
        return SchedulerSettings(policy=None if self.policy is None else Policy(self.policy), **said)


class SchedulerShown(Shown):
    """Complete with max_batch and max_batched_tokens beside it; the engine's own where nothing was set."""

    model_config = shown_as(WHOLE_EXAMPLE)

    max_batched_tokens: int | None = None
    max_sequences: int | None = None
    policy: PolicyName | None = None
    prefix_cache: bool | None = None
    receive_interval_steps: int | None = None
    batch_wait_steps: int | None = None
    batch_wait_share: float | None = None
    planning_lag_steps: int | None = None


def scheduler_json(s: SchedulerSettings | None) -> dict[str, Any] | None:
    """Settings as they are echoed."""
    if s is None:
        return None
    policy = None if s.policy is None else s.policy.value
    return present(**{**asdict(s), "policy": policy}) or None
