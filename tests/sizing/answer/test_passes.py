"""Single-pass work read out: a batch keeps its activations, and the slower of matrices and memory binds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.passes import PassAnswerWriter, host_reasons
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import Performance
from app.sizing.serving.single_pass import HostWork, batch_terms, request_sample_work
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import CHAT, col, registered, row
from tests.sizing.serving.given import on_big
from tests.sizing.small import SMALL

WORDS = PassAnswerWriter()
VIT: InferenceWorkload = replace(
    CHAT,
    model=registered("google/vit-base-patch16-224"),
    input_tokens=Lengths(1.0),
    output_tokens=Lengths(0.0),
    slo=Slo(None, None, 0.5, 95),
)
MEMORY = row(
    weights_bytes=col(0.5 * GIB),
    activation_bytes=col(1e8),
    overhead_bytes=col(1e9),
    capacity_bytes=col(80 * GIB),
    usable_bytes=col(72 * GIB),
)


def test_a_batch_keeps_the_activations_of_each_of_its_samples() -> None:
    judged: Any = row(memory=MEMORY, speed=row(slo_batch=col(32.0)))
    memory = WORDS.device_memory(VIT, judged, 0)
    assert memory.activation_bytes == pytest.approx(32 * 1e8)
    assert (memory.kv_cache_bytes, memory.kv_cache_tokens) == (0.0, None)
    assert memory.total_bytes == pytest.approx(0.5 * GIB + 3.2e9 + 1e9)
    # 0.5 GiB and 4.2 GB
    assert WORDS.memory_reason(VIT, judged, 0, "", "ViT").text == (
        "ViT takes 0.50 GiB of 72.0 GiB usable memory. With a batch of 32 samples, 4.4 GiB are needed."
    )
    assert not WORDS.is_full(judged, 0, Assumptions())
    assert WORDS.engine_settings(VIT, judged, 0) == {}


@pytest.mark.parametrize(("batch", "binds", "seconds"), [(2.0, "memory_bandwidth", 0.006), (16.0, "compute", 0.032)])
def test_matrices_bind_in_large_batches_and_weights_in_small(batch: float, binds: str, seconds: float) -> None:
    # weights take 4 ms and 1 ms a sample, matrices 2 ms a sample
    terms = replace(
        batch_terms(request_sample_work(VIT), on_big()),
        weights_s=col(0.004),
        bytes_slope_s=col(0.001),
        flops_slope_s=col(0.002),
        launch_s=col(0.0005),
        request_s=col(0.003),
        passes=2.0,
    )
    judged: Any = row(speed=row(terms=terms), operation=row(batch=col(batch)))
    shares = {name: float(column[0]) for name, column in WORDS.step_seconds(VIT, judged).items()}
    other = "compute" if binds == "memory_bandwidth" else "memory_bandwidth"
    assert [shares[binds], shares[other]] == pytest.approx([seconds, 0.0])
    # a request's own time is spread over its passes
    assert shares["host"] == pytest.approx(0.0005 + 0.0015)


@pytest.mark.parametrize(
    ("host_s", "in_turn", "binds"), [(0.001, False, "compute"), (0.5, False, "host"), (0.5, True, "host")]
)
def test_a_host_that_is_slower_binds(host_s: float, in_turn: bool, binds: str) -> None:
    terms = replace(
        batch_terms(request_sample_work(VIT), on_big()),
        host_work=HostWork(col(host_s), col(64.0), col(0.0), np.array([in_turn])),
    )
    judged: Any = row(speed=row(terms=terms), operation=row(batch=col(64.0)))
    shares = {name: float(column[0]) for name, column in WORDS.step_seconds(VIT, judged).items()}
    assert max(shares, key=lambda name: shares[name]) == binds
    assert (shares["compute"] == 0) == (binds == "host" and not in_turn)


@pytest.mark.parametrize(
    ("vcpus", "serial_s", "said"),
    [
        (128.0, 0.0, "takes 3.4 ms of one CPU core. Each replica has 0.6 cores."),
        (np.nan, 0.0, "Each replica has 0.6 cores (assumed: the listing does not state the CPU)."),
        (
            128.0,
            0.1,
            "One server process dispatches at most 10 requests/s. A faster accelerator does not raise this limit.",
        ),
    ],
)
def test_a_host_bottleneck_is_reported_with_its_cores(vcpus: float, serial_s: float, said: str) -> None:
    terms = batch_terms(request_sample_work(VIT), on_big())
    hosting = HostWork(col(0.0034), col(0.6), col(serial_s), np.array([False]))
    judged: Any = row(
        speed=row(terms=replace(terms, host_work=hosting)), operation=row(batch=col(64.0)), plans=row(vcpus=col(vcpus))
    )
    (reason,) = host_reasons(judged, 0)
    assert reason.text.endswith(said)
    judged.speed.terms = terms
    assert not [*host_reasons(judged, 0)]  # what needs nothing of it


def speed(**changes: Any) -> Performance:
    found = estimate_deployment(
        Question(replace(VIT, **changes)), Deployment("acme-big", system="big-8"), SMALL
    ).performance
    assert found is not None
    return found


def test_samples_are_counted_and_tokens_are_not() -> None:
    found = speed()
    assert found.samples_per_s == found.requests_per_s_capacity
    assert (found.total_tokens_per_s, found.output_tokens_per_s, found.ttft, found.tpot) == (None, None, None, None)
    assert found.e2e is not None
    assert (found.e2e.p50_s or 0) <= (found.e2e.p95_s or 0) <= (found.e2e.p99_s or 0)
    assert found.basis == "roofline"
    assert (found.unstable_above_requests_per_s or 0) >= 5.0
    assert speed(load=Load.OFFLINE).unstable_above_requests_per_s is None


def test_an_interval_is_the_one_of_the_coefficients_as_far_as_the_device_allows() -> None:
    found = speed()
    rate = found.samples_per_s or 0
    assert found.interval.low == pytest.approx(rate * 0.6)
    assert rate < found.interval.high < rate * 1.9  # it computes 1.5 times as fast at most
    whole, mean = found.intervals
    assert (mean.quantity, mean.statistic) == ("e2e_s", "mean")
    assert found.e2e is not None and found.e2e.p50_s is not None
    assert (whole.quantity, whole.statistic) == ("e2e_s", "p50")
    assert whole.high == pytest.approx(found.e2e.p50_s / 0.6)
    assert found.e2e.p50_s / 1.9 <= whole.low < found.e2e.p50_s
