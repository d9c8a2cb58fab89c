"""Kept curves: what they come of tells them apart, so that an answer is the same whether anything was asked before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.question import Constraints, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving.curves import Curve
from app.sizing.serving.kept import CURVE_CACHE, CurveCache, curve_key, workload_key
from app.sizing.serving.simulation import Replica
from app.sizing.workload import Lengths, Load, Slo
from tests.sizing.serving.given import varied
from tests.sizing.serving.test_curves import curve
from tests.sizing.serving.test_simulated import FEW
from tests.sizing.small import SMALL

ASKED: dict[str, Any] = {"peak_per_s": 40.0, "average_per_s": 20.0, "slo": Slo(1.0, 0.05, None, 95.0)}
WORKLOAD = varied(**ASKED)
OTHERS: list[dict[str, Any]] = [
    {"peak_per_s": 41.0},
    {"burstiness": 2.0},
    {"input_tokens": Lengths(801.0)},
    {"output_tokens": Lengths(WORKLOAD.output_tokens.mean, 2 * WORKLOAD.output_tokens.mean)},
    {"cached_prefix_fraction": 0.5},
    {"shared_prefix_fraction": 0.1},
    {"turn_gap_s": 3.0},
    {"slo": Slo(1.0, 0.04, None, 95.0)},
    {"slo": Slo(1.0, 0.05, None, 99.0)},
    {"comes_read": True},
    {"load": Load.CLOSED, "in_flight": 64.0},
    {"model": replace(WORKLOAD.model, max_context_tokens=4096)},
]


@pytest.mark.parametrize("changes", OTHERS, ids="-".join)
def test_workloads_with_other_requests_or_limits_have_other_keys(changes: dict[str, Any]) -> None:
    assert workload_key(varied(**ASKED)) == workload_key(WORKLOAD)
    assert workload_key(replace(WORKLOAD, **changes)) != workload_key(WORKLOAD)


def test_every_figure_of_replicas_and_bounds_changes_the_key() -> None:
    grid = np.arange(3.0)
    columns = ("Seconds", "Counts")
    fields: dict[str, Any] = {n: grid if str(of) in columns else 1 for n, of in Replica.__annotations__.items()}
    replica = Replica(**fields)
    keys = {curve_key(b"", replica, 1, 2), curve_key(b"", replica, 2, 1), curve_key(b"x", replica, 1, 2)}
    for name, value in fields.items():
        keys |= {
            curve_key(b"", Replica(**{**fields, name: other}), 1, 2) for other in (value + 1, np.append(value, 1.0))
        }
    assert len(keys) == 3 + 2 * len(fields)
    assert curve_key(b"", Replica(**fields), 1, 2) in keys


def test_the_curve_asked_for_longest_ago_is_forgotten_first() -> None:
    kept, made = CurveCache(2), []

    def asked(name: bytes) -> Curve:
        def simulate() -> Curve:
            made.append(name)
            return curve()

        return kept.get_or_simulate(name, simulate)

    first = asked(b"a")
    assert asked(b"a") is first
    for name in (b"b", b"a", b"c", b"a", b"b"):
        asked(name)
    assert made == [b"a", b"b", b"c", b"b"]
    kept.clear()
    asked(b"a")
    assert made[-1] == b"a"


def test_an_answer_is_the_same_whatever_was_asked_before() -> None:
    questions = [
        Question(replace(WORKLOAD, **changes), limits, assumptions=FEW)
        for changes in ({}, *OTHERS[1::3])
        for limits in (Constraints(), Constraints(max_accelerators=12))
    ]
    warm = [recommend_hardware(question, SMALL) for question in (*questions, *questions)]
    for question, *found in zip(questions, warm, warm[len(questions) :], strict=False):
        CURVE_CACHE.clear()
        fresh = recommend_hardware(question, SMALL)
        assert [a.recommendations for a in found] == [fresh.recommendations] * 2
        assert [a.assumptions for a in found] == [fresh.assumptions] * 2
