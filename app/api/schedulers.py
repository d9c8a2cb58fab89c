"""Settings of a scheduler that contradict the rest of a deployment: refused with what does not."""

from __future__ import annotations

from collections.abc import Iterable

from app.api.phases import Refused, refuse
from app.api.schemas.pools import PoolsSpec
from app.api.schemas.replica import ReplicaSpec
from app.api.schemas.requests import EstimateRequest

ALIKE = {"max_sequences": "max_batch", "max_batched_tokens": "max_batched_tokens"}  # of a deployment


def check_scheduler(request: EstimateRequest) -> None:
    """Refuse one setting that is said twice, in two ways; of each pool too."""
    d, pools = request.deployment, request.deployment.pools
    found = [*_twice(d, "deployment")]
    for name in () if pools is None else PoolsSpec.model_fields:
        found += _twice(getattr(pools, name), f"deployment.pools.{name}")
    refuse(found)


def _twice(said: ReplicaSpec, of: str) -> Iterable[Refused]:
    for name, other in ALIKE.items() if said.scheduler is not None else ():
        one, two = getattr(said.scheduler, name), getattr(said, other)
        if None not in (one, two) and one != two:
            text = f"scheduler.{name} is {one:,} and {of}.{other}, the same setting, {two:,}: give one of them."
            yield Refused(f"#/{of.replace('.', '/')}/scheduler/{name}", text)
