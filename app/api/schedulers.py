"""Rejects scheduler settings that contradict the rest of a deployment."""

from __future__ import annotations

from collections.abc import Iterable

from app.api.phases import FieldError, raise_field_errors
from app.api.schemas.pools import PoolsSpec
from app.api.schemas.replica import ReplicaSpec
from app.api.schemas.requests import EstimateRequest

# Scheduler settings and the deployment fields with the same meaning.
SAME_SETTINGS = {"max_sequences": "max_batch", "max_batched_tokens": "max_batched_tokens"}


def check_scheduler(request: EstimateRequest) -> None:
    """Rejects a setting that is given twice with different values, for the deployment and for each pool."""
    d, pools = request.deployment, request.deployment.pools
    errors = [*_duplicate_settings(d, "deployment")]
    for name in () if pools is None else PoolsSpec.model_fields:
        errors += _duplicate_settings(getattr(pools, name), f"deployment.pools.{name}")
    raise_field_errors(errors)


def _duplicate_settings(spec: ReplicaSpec, of: str) -> Iterable[FieldError]:
    for name, other in SAME_SETTINGS.items() if spec.scheduler is not None else ():
        one, two = getattr(spec.scheduler, name), getattr(spec, other)
        if None not in (one, two) and one != two:
            text = f"scheduler.{name} ({one:,}) contradicts {of}.{other} ({two:,}), the same setting. Omit one of them."
            yield FieldError(f"#/{of.replace('.', '/')}/scheduler/{name}", text)
