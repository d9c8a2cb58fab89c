"""Percentiles, what was simulated and the load curve as they are sent."""

from __future__ import annotations

import json
from dataclasses import replace

from app.api.schemas.results import LoadCurveShown, PercentilesShown, SimulationShown
from app.sizing.result import LoadCurve, LoadPoint, Percentiles, Simulation

WAITS = Percentiles(0.012, 0.0101, 0.03, None)
POINT = LoadPoint(12.34567, None, 0.2, 0.64, 0.024, 0.0317, 3174.4, 0.9981234)


def test_percentiles_are_milliseconds_and_null_where_the_queue_never_empties() -> None:
    assert PercentilesShown.as_json(WAITS) == {"mean": 12, "p50": 10.1, "p95": 30, "p99": None}
    PercentilesShown.model_validate(PercentilesShown.as_json(WAITS))


def test_a_simulation_is_sent_as_its_schema_says() -> None:
    shown = SimulationShown.as_json(
        Simulation(10_000, 1, "poisson", "mixed", WAITS, WAITS, 31.8, 0.42, 0.0, 12.3, 0.99)
    )
    SimulationShown.model_validate(shown)
    assert (shown["requests"], shown["queue_ms"]["p50"], shown["goodput_requests_per_s"]) == (10_000, 10.1, 12.3)


def test_a_curve_takes_four_digits_and_names_the_load_it_is_of() -> None:
    shown = LoadCurveShown.as_json(LoadCurve((POINT, replace(POINT, in_flight=64.0)), 14.2))
    LoadCurveShown.model_validate_json(json.dumps(shown))
    rate, closed = shown["points"]
    assert (rate["requests_per_s"], rate["ttft_ms"], rate["goodput_share"]) == (12.35, {"p50": 200, "p95": 640}, 0.9981)
    assert "in_flight" not in rate
    assert closed["in_flight"] == 64
