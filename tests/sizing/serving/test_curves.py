"""A replica's curve: read between loads in logarithms, crossed by limits, and never better at a higher load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.serving.curves import (
    AT_LIMIT,
    STATISTIC_COLUMNS,
    WAITS,
    Curve,
    capacity_at_confidence_per_s,
    in_flight_within,
    loads_within_limits,
    waits_at,
)
from app.sizing.serving.margins import Margins
from app.sizing.workload import Slo
from tests.examples import col

NONE = Margins.without_margin(1)


def curve(ttft_s: tuple[float, ...] = (0.1, 0.2, 0.8), tpot_s: float = 0.02, **changes: Any) -> Curve:
    """Loads of 1, 2 and 4; a request has 101 tokens, and every statistic of a wait is the same."""
    first, token = np.array(ttft_s), np.full(len(ttft_s), tpot_s)
    waits = dict.fromkeys(WAITS, token) | {"ttft": first, "e2e": first + 100 * token}
    table = np.stack([np.stack([waits[name]] * len(STATISTIC_COLUMNS), axis=1) for name in WAITS], axis=1)
    usual: dict[str, Any] = {
        "closed": False,
        "policy": "mixed",
        "loads": col(1, 2, 4)[: len(ttft_s)],
        "waits_s": table,
        "answered_per_s": col(1, 2, 3.9)[: len(ttft_s)],
        "running": col(2, 4, 10)[: len(ttft_s)],
        "cache_share": col(0.1, 0.2, 0.5)[: len(ttft_s)],
        "preempted": col(0, 0, 0.4)[: len(ttft_s)],
        "goodput_share": col(1, 0.9, 0.1)[: len(ttft_s)],
        "stable_below": 3.9,
        "requests": np.full(len(ttft_s), 10_000.0),
    }
    return Curve(**usual | changes)


def limit(ttft_s: float | None = None, tpot_s: float | None = None, e2e_s: float | None = None) -> Slo:
    return Slo(ttft_s, tpot_s, e2e_s, 95.0)


def test_between_two_loads_waits_are_straight_in_logarithms() -> None:
    assert curve().wait_s("ttft", "p95", 2.0) == pytest.approx(0.2)
    assert curve().wait_s("ttft", "p95", np.sqrt(8)) == pytest.approx(0.4)  # half way from 2 to 4, and from 0.2 to 0.8
    assert curve().wait_s("ttft", "p95", 0.01) == pytest.approx(0.1)  # no load is lighter than the lightest
    assert curve().wait_s("ttft", "p95", 3.9) == np.inf
    assert curve().simulated_wait_s("ttft", "p95", 4.0) == pytest.approx(0.8)


def test_a_closed_loop_waits_on_beyond_its_last_load() -> None:
    closed = curve(closed=True, stable_below=np.inf)
    assert closed.wait_s("ttft", "p50", 8.0) == pytest.approx(0.8 * 4)
    assert closed.answered_rate_per_s(100.0) == pytest.approx(3.9)


def test_a_limit_is_crossed_where_its_wait_is_read() -> None:
    found = loads_within_limits([curve()], limit(0.4), NONE)[0]
    assert found == pytest.approx(np.sqrt(8))
    assert curve().wait_s("ttft", AT_LIMIT, found) == pytest.approx(0.4)
    assert loads_within_limits([curve()], limit(0.05), NONE)[0] == 0  # not even alone
    assert loads_within_limits([curve()], limit(9.0), NONE)[0] == 4
    assert loads_within_limits([curve()], limit(), NONE)[0] == 4
    assert loads_within_limits([curve()], limit(9.0, 0.01), NONE)[0] == 0
    assert loads_within_limits([curve()], limit(None, None, 2.2), NONE)[0] == pytest.approx(2.0)


def test_margins_make_waits_longer_and_rates_smaller() -> None:
    margins = Margins(col(1.5), col(2.0), col(2.0), col(0))
    assert loads_within_limits([curve()], limit(0.8), margins)[0] == pytest.approx(np.sqrt(8))
    assert loads_within_limits([curve()], limit(None, None, 2 * 2.2), margins)[0] == pytest.approx(2.0)
    assert capacity_at_confidence_per_s(col(4), col(3.9), margins.rate)[0] == pytest.approx(2.6)


def test_more_may_be_in_flight_than_meets_a_limit_never() -> None:
    closed = curve(closed=True, stable_below=np.inf)
    assert in_flight_within([closed], limit(0.4), NONE, col(100)).tolist() == [2]
    assert in_flight_within([closed], limit(9.0), NONE, col(3)).tolist() == [3]
    assert in_flight_within([closed], limit(0.05), NONE, col(3)).tolist() == [0]


def test_the_limit_missed_by_the_most_is_named() -> None:
    assert curve().worst_wait_at_lightest(limit(0.08, 0.005), NONE, 0) == pytest.approx((0.02, 0.005))


def test_figures_that_grow_with_the_load_start_from_nothing() -> None:
    one = curve()
    assert one.interpolate_proportional(one.running, 0.5) == pytest.approx(1.0)
    assert one.interpolate_proportional(one.running, 2.0) == pytest.approx(4.0)
    assert one.interpolate_value(one.preempted, np.sqrt(8)) == pytest.approx(0.2)
    assert one.answered_rate_per_s(2.5) == 2.5


def test_the_knee_is_where_p95_outgrows_throughput() -> None:
    """From 1 to 2 the wait doubles as the rate does; from 2 to 4 it is fourfold."""
    assert curve().knee_load() == 2.0
    assert curve((0.1, 0.11, 0.12)).knee_load() == 4.0


def test_a_deployments_columns_are_read_row_by_row() -> None:
    found = waits_at([curve(), curve((0.2, 0.4, 1.6))], col(2, 1))
    assert found["ttft_p95_s"].tolist() == pytest.approx([0.2, 0.2])
    assert found["e2e_mean_s"].tolist() == pytest.approx([2.2, 2.2])
    assert len(found) == 12


def test_a_single_load_is_all_there_is() -> None:
    alone = curve((0.1,))
    assert alone.wait_s("ttft", "p50", 0.5) == pytest.approx(0.1)
    assert alone.knee_load() == 1.0


def test_waits_of_zero_are_not_extrapolated() -> None:
    closed = curve((0.0, 0.0, 0.8), closed=True, stable_below=np.inf)
    assert closed.wait_s("ttft", "p50", 1.5) == 0
    assert closed.wait_s("ttft", "p50", 16.0) == pytest.approx(0.8)
