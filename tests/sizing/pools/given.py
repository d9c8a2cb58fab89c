"""What tests of split pools start from: a small model on the small catalogue, and machines with any network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import SystemKind
from app.sizing.question import Deployment, Pools, Question
from app.sizing.result import (
    DeviceMemory,
    Estimate,
    Interval,
    LoadCurve,
    LoadPoint,
    Percentiles,
    Performance,
    PoolSplit,
    Simulation,
    Transfer,
)
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, SMALL, offer, snapshot, system

# What the theory of pools speaks of: first tokens that are seen as soon as they are read.
AT_ONCE = Assumptions(split_first_token_factor=1.0)
ONE: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": 1, "replicas": 1, "kv_format": "bf16"}


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


def waits(first_s: float) -> Percentiles:
    """Waits that grow by one such wait from statistic to statistic."""
    return Percentiles(first_s, 2 * first_s, 3 * first_s, 4 * first_s)


def curve(*points: tuple[float, float], goodput: float = 1.0, queue_s: float = 0.0, closed: bool = False) -> LoadCurve:
    """A load curve through (load, median TTFT); p95 is twice the median, tokens take a tenth of it."""
    made = [
        LoadPoint(load, load if closed else None, s, 2 * s, s / 10, s / 5, 100 * load, goodput, queue_s, 2 * queue_s)
        for load, s in points
    ]
    return LoadCurve(tuple(made), points[-1][0])


def simulated(queue_s: float, goodput: float, requests: int = 1000, preemptions: float = 0.0) -> Simulation:
    return Simulation(
        requests, 7, "poisson", "mixed", waits(0.01), waits(queue_s), 12.0, 0.6, preemptions, 50.0, goodput
    )


# Two pools by hand: prompts are read in 0.1 s and waited for 0.01 s by the other pool, which writes 100 tokens of
# 0.01 s each; prefill serves 40 requests/s, decode 30.
READS = Performance(
    Interval("output_tokens_per_s", 32.0, 48.0),
    "calibrated",
    (Interval("ttft_s", 0.08, 0.12, "mean"), Interval("ttft_s", 0.16, 0.26, "p50")),
    sources=3,
    output_tokens_per_s=40.0,
    prefill_tokens_per_s=32_000.0,
    requests_per_s_capacity=40.0,
    overloaded=False,
    batch_at_peak=2.0,
    ttft=waits(0.1),
    e2e=waits(0.1),
    simulation=simulated(0.002, 0.9, 800, 0.1),
    load_curve=curve((5.0, 0.1), (20.0, 0.4), goodput=0.9),
    unstable_above_requests_per_s=50.0,
    cold_start_s=60.0,
)
WRITES = Performance(
    Interval("output_tokens_per_s", 2400.0, 3300.0),
    "roofline",
    (Interval("tpot_s", 0.009, 0.012, "mean"), Interval("tpot_s", 0.018, 0.024, "p50")),
    sources=2,
    output_tokens_per_s=3000.0,
    requests_per_s_capacity=30.0,
    overloaded=False,
    batch_at_peak=12.0,
    ttft=waits(0.02),
    tpot=waits(0.01),
    e2e=waits(1.02),
    simulation=simulated(0.01, 0.8, 1000, 0.2),
    load_curve=curve((5.0, 0.01), (20.0, 0.04), goodput=0.8, queue_s=0.01),
    unstable_above_requests_per_s=35.0,
    cold_start_s=90.0,
)
LINK = Transfer(6e6, 0.05, "network", 1.2e8, 60.0, None)


def pool_estimate(performance: Performance, **changes: Any) -> Estimate:
    """The estimate of one pool made by hand; 70 of 80 GB are usable, and its cache takes all that is left."""
    memory = DeviceMemory(10e9, 56e9, 2e9, 2e9, 0.0, 0.0, 80e9, 70e9)
    pool = Deployment(BIG.slug, replicas=1, total_accelerators=1, accelerators_per_replica=1, engine="vllm")
    return replace(Estimate(pool, True, memory, performance, "memory bandwidth", None, ()), **changes)
