"""The worse a cause, the more it costs and the higher it stands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing.diagnosis.case import DevicesObservation
from app.sizing.diagnosis.diagnose import Diagnosis
from app.sizing.snapshot import Catalog
from tests.sizing.diagnosis.given import serving, training
from tests.sizing.diagnosis.planted import RUNS, Planted, of_run, of_service, run, sent, service, written

# A figure, the least and the most of it, and whether more of it is worse.
OF_RUN: dict[str, tuple[str, float, float]] = {
    "input_bound": ("input_s", 1.0, 30.0),
    "exposed_communication": ("communication_s", 2.0, 30.0),
    "outside_kernels": ("outside_kernels_s", 1.0, 30.0),
    "slow_checkpoints": ("checkpoint_s", 60.0, 3000.0),
    "run_restarts": ("restarts_per_day", 3.0, 60.0),
    "evaluation": ("evaluation_share", 0.1, 0.9),
    "slow_rank": ("slowest_rank_s", 11.0, 60.0),
}
OF_SERVICE: dict[str, tuple[str, float, float]] = {
    "overloaded": ("requests_per_s", 50.0, 300.0),
    "late_first_token": ("ttft_p50_s", 1.0, 60.0),
    "slow_decode": ("tpot_p50_s", 0.2, 2.0),
    "preemptions": ("preemptions_per_request", 0.1, 5.0),
    "errors": ("error_share", 0.02, 1.0),
    "uneven_replicas": ("busiest_replica_share", 1.3, 5.0),
}


def place(found: Diagnosis, codes: Sequence[str]) -> tuple[int, float]:
    """Rank and cost of a cause; last if it is not found."""
    at = next((i for i, f in enumerate(found.findings) if f.code in codes), None)
    return (len(found.findings) + 1, 0.0) if at is None else (at, found.findings[at].known_cost_share)


def assert_worse(mild: Diagnosis, severe: Diagnosis, codes: Sequence[str]) -> None:
    (before, cheap), (after, dear) = place(mild, codes), place(severe, codes)
    assert after <= before and dear >= cheap - 1e-9, (codes, [f.code for f in severe.findings])


@settings(max_examples=12)
@given(st.sampled_from(sorted(OF_RUN)), st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_worse_figures_of_a_run(code: str, at: tuple[float, float]) -> None:
    field, low, high = OF_RUN[code]
    figures: dict[str, Any] = {"step_time_s": 60.0, "median_rank_s": 10.0 if code == "slow_rank" else None}
    figures |= {"compute_s": None} if code != "slow_rank" else {}
    mild, severe = (training(**{**figures, field: low + part * (high - low)}) for part in sorted(at))
    assert_worse(mild, severe, (code,))


@pytest.mark.slow
@settings(max_examples=12)
@given(st.sampled_from(sorted(OF_SERVICE)), st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_worse_figures_of_a_service(code: str, at: tuple[float, float]) -> None:
    field, low, high = OF_SERVICE[code]
    figures: list[dict[str, Any]] = [{field: low + part * (high - low)} for part in sorted(at)]
    mild, severe = (serving(**seen) for seen in figures)
    assert_worse(mild, severe, (code,))


@settings(max_examples=8)
@given(st.sampled_from(["clock_share", "utilization", "slowest_clock_share"]), st.tuples(*[st.floats(0.1, 0.95)] * 2))
def test_worse_figures_of_accelerators(field: str, at: tuple[float, float]) -> None:
    codes = {"clock_share": "low_clocks", "utilization": "starved", "slowest_clock_share": "uneven_clocks"}
    severe, mild = (training(DevicesObservation(**{field: value})) for value in sorted(at))
    assert_worse(mild, severe, (codes[field],))


LADDERS: tuple[tuple[Planted, ...], ...] = (
    tuple(service("l4", "starved", host_step_s=s) for s in (0.01, 0.03, 0.08)),
    tuple(service("a100", "low_clocks", clock=c) for c in (0.8, 0.6, 0.4)),
    tuple(service("4090", "slow_decode", kernels=k) for k in (1.2, 2.0, 4.0)),
    tuple(service("l4", "batch_limit", asked={"max_batch": b}) for b in (48, 16, 4)),
    tuple(service("h100", "cache_full", "preemptions", cache=c) for c in (0.2, 0.08, 0.03)),
    tuple(run("8b", "input_bound", read_share=s) for s in (1.05, 1.3, 2.0)),
    tuple(run("7b", "exposed_communication", network=n, sent_s=sent) for n in (0.8, 0.4, 0.1)),
    tuple(run("14b", "slow_rank", straggler=s) for s in (1.05, 1.3, 2.0)),
    tuple(run("8b", "slow_checkpoints", checkpoint_bytes=written, storage_bytes_per_s=s) for s in (5e9, 5e8, 5e7)),
)


@pytest.mark.slow
@pytest.mark.parametrize("ladder", LADDERS, ids=lambda ladder: ladder[0].name)
def test_a_worse_system_is_found_no_cheaper_and_no_lower(ladder: Sequence[Planted], catalog: Catalog) -> None:
    judge = partial(of_run if ladder[0].where in RUNS else of_service, catalog=catalog, seed=7, noise=0.0)
    found = [judge(case) for case in ladder]
    for mild, severe in pairwise(found):
        assert_worse(mild, severe, ladder[0].codes)
