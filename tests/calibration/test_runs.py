"""How published results were taken, as their rows say."""

from __future__ import annotations

import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.workload import Lengths
from calibration.serving.runs import LengthSpread, Run, Start, Statistic, run_of
from tests.calibration.conftest import ROWS

RUNS = {name: run_of(row) for name, row in ROWS.items()}
STARTS = {
    "single": {Start.SINGLE},
    "batch": {Start.STATIC, Start.BURST},  # some sources call a burst of prompts a batch
    "offline": {Start.OFFLINE},
    "concurrency": {Start.BURST, Start.STEADY},
    "request_rate": {Start.POISSON},
    "server": {Start.POISSON},
}


def test_every_row_says_how_its_requests_came() -> None:
    for name, run in RUNS.items():
        row = ROWS[name]
        assert run.start in STARTS[row["load_kind"]], name
        timed = any(row[f"{what}_ms_{of}"] for what in ("ttft", "tpot") for of in ("mean", "p50"))
        assert (run.statistic is not None) == timed, name
        half = any(row[f"{what}_ms_p50"] for what in ("ttft", "tpot"))
        assert (run.statistic is Statistic.P50) == half, name


def test_no_run_is_shorter_than_what_it_had_in_flight() -> None:
    for name, run in RUNS.items():
        if run.requests is not None and run.start is Start.BURST:
            assert run.requests >= float(ROWS[name]["load_value"]), name


def test_launch_settings_hold_what_the_launch_allows() -> None:
    for name, run in RUNS.items():
        set_to, row = run.settings, ROWS[name]
        if run.memory_fraction is not None:
            assert 0.5 <= run.memory_fraction <= 1, name
        if set_to.batch_wait_steps is not None or set_to.batch_wait_share is not None:
            assert row["engine"] == "TensorRT-LLM", name
            assert set_to.batch_wait_steps and 0 < (set_to.batch_wait_share or 0) < 1, name
        if set_to.receive_interval_steps is not None:
            assert row["engine"] == "SGLang", name
        if row["engine"] == "TensorRT-LLM" and set_to.max_batched_tokens is not None:
            assert set_to.max_batched_tokens >= float(row["input_len"]), name  # its prompts are not split


@pytest.mark.parametrize(
    ("text", "spread"),
    [
        ("fixed", LengthSpread()),
        ("uniform 0.8-1", LengthSpread(0.8, 1.0)),
        ("uniform 0-2", LengthSpread(0.0, 2.0)),
        ("lognormal 3", LengthSpread(p95_to_mean=3.0)),
        ("", LengthSpread(p95_to_mean=Assumptions.default_value("length_p95_to_mean"))),
    ],
)
def test_a_spread_is_read_as_it_is_written(text: str, spread: LengthSpread) -> None:
    assert LengthSpread.parse_text(text) == spread


def test_lengths_lie_around_the_stated_mean() -> None:
    assert LengthSpread.parse_text("fixed").lengths_around(128) == Lengths(128)
    assert LengthSpread.parse_text("uniform 0.8-1").lengths_around(1000) == Lengths.uniform(800, 1000)
    assert LengthSpread.parse_text("uniform 0-2").lengths_around(500) == Lengths.uniform(1, 1000)
    assert LengthSpread.parse_text("lognormal 3").lengths_around(200) == Lengths(200, p95=600)


def test_a_sweep_point_is_ten_times_what_it_has_in_flight_from_a_standing_start() -> None:
    found = run_of(ROWS["inferencex-aiconfigurator-0001"])
    assert isinstance(found, Run)
    in_flight = float(ROWS["inferencex-aiconfigurator-0001"]["load_value"])
    assert (found.start, found.requests, found.served) == (Start.BURST, 10 * in_flight, True)
    assert found.statistic is Statistic.MEAN
    assert (found.spread.low, found.spread.high) == (0.8, 1.0)
    assert found.settings.prefix_cache is False
