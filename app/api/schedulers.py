"""Settings of a scheduler that contradict the rest of a deployment: refused with what does not."""

from __future__ import annotations

from collections.abc import Iterable

from app.api.phases import Refused, refuse
from app.api.schemas.requests import EstimateRequest

AT = "#/deployment/scheduler"
ALIKE = {"max_sequences": "max_batch", "max_batched_tokens": "max_batched_tokens"}  # of a deployment


def check_scheduler(request: EstimateRequest) -> None:
    """Refuse one setting that is said twice, in two ways."""
    refuse(_twice(request))


def _twice(request: EstimateRequest) -> Iterable[Refused]:
    d = request.deployment
    for name, other in ALIKE.items() if d.scheduler is not None else ():
        one, two = getattr(d.scheduler, name), getattr(d, other)
        if None not in (one, two) and one != two:
            text = f"scheduler.{name} is {one:,} and deployment.{other}, the same setting, {two:,}: give one of them."
            yield Refused(f"{AT}/{name}", text)
