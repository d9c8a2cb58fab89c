"""What tests of split pools start from: a small model on the small catalogue, and machines with any network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import SystemKind
from app.sizing.question import Deployment, Pools, Question
from app.sizing.result import Estimate, Performance, PoolSplit
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, SMALL, offer, snapshot, system

# What the theory of pools speaks of: first tokens that are seen as soon as they are read.
AT_ONCE = Assumptions(split_first_token_factor=1.0)
ONE: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": 1, "replicas": 1}


def networked(bytes_per_s: float) -> Catalog:
    """The small catalogue with one kind of machine, whose eight accelerators share such a network."""
    machine = system("big-8", SystemKind.CLOUD_INSTANCE, BIG, 8, ram_bytes=2e12, network_bytes_per_s=bytes_per_s)
    return snapshot(systems=(machine,), offers=(offer("big-8", 40.0),))


INFINITE = networked(1e24)


def pools_of(prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None) -> Pools:
    """Two pools on the board of eight, of one accelerator each where nothing else is said."""
    sides = [Deployment(**{"accelerator": BIG.slug, **(ONE if said is None else said)}) for said in (prefill, decode)]
    return Pools(*sides)


def split(pools: Pools, catalog: Catalog = SMALL, workload: InferenceWorkload = STEADY, **said: Any) -> Estimate:
    """Two pools, judged."""
    return estimate_deployment(
        Question(workload, assumptions=AT_ONCE), Deployment(BIG.slug, pools=pools, **said), catalog
    )


def whole(catalog: Catalog = SMALL, workload: InferenceWorkload = STEADY, **said: Any) -> Estimate:
    """One deployment that does both, judged."""
    return estimate_deployment(Question(workload), Deployment(BIG.slug, **{**ONE, **said}), catalog)


def speed(found: Estimate) -> Performance:
    assert found.performance is not None
    return found.performance


def parts(found: Estimate) -> PoolSplit:
    pools = speed(found).pools
    assert pools is not None
    return pools


def at_rate(requests_per_s: float, **changes: Any) -> InferenceWorkload:
    """The steady workload at another rate."""
    return replace(STEADY, peak_per_s=requests_per_s, average_per_s=requests_per_s / 2, **changes)
