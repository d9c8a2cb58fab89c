"""The closed form says what the simulated scheduler does, in the median of random workloads on real plans."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.hardware.engines.record import Policy
from app.sizing.hardware.tables import POLICIES
from app.sizing.snapshot import Catalog
from app.sizing.workload import Lengths, Load, Slo
from tests.examples import registered
from tests.sizing.serving.given import varied
from tests.sizing.serving.simulation.agreement import (
    Case,
    Compared,
    apart,
    cases,
    compared,
    operated,
    plans_for,
    replica,
    simulated,
)

COUNT, SEED = 80, 1


@pytest.fixture(scope="module")
def found(catalog: Catalog) -> list[Compared]:
    return [compared(case) for case in cases(catalog, COUNT, seed=SEED)]


@pytest.mark.parametrize(("name", "within"), [("tpot_p50", 0.05), ("ttft_p50", 0.20), ("capacity", 0.10)])
def test_a_steady_state_is_predicted_as_it_is_simulated(found: list[Compared], name: str, within: float) -> None:
    assert apart(found, name) < within


def test_neither_loops_nor_rates_are_predicted_one_sidedly(found: list[Compared]) -> None:
    for is_open in (False, True):
        ratios = [c.ttft_p50 for c in found if c.case.is_open == is_open]
        assert 0.85 < np.median(ratios) < 1.18


def saturation_ratio(catalog: Catalog, name: str, answers: Lengths, **layout: int) -> tuple[float, float]:
    """Saturation rate of a plan with prompts of 8,000 tokens: closed form over simulation, and the simulated rate."""
    workload = varied(
        model=registered(name),
        load=Load.CLOSED,
        in_flight=256.0,
        input_tokens=Lengths(8000.0, 8000.0),
        output_tokens=answers,
        max_context_tokens=16_000.0,
        slo=Slo(None, None, None, 50),
    )
    plans = plans_for(catalog, name)
    fits = np.ones(len(plans), dtype=bool)
    for degree, value in layout.items():
        fits &= getattr(plans, degree) == value
    mixes = plans.scheduling_rules.policy == POLICIES.index(Policy.MIXED)
    case = Case(workload, plans.take(np.flatnonzero(fits & mixes)[:1]), 1.0)
    memory, speed, _ = operated(case, workload)
    full = int(memory.sequences[0] * layout["data_parallel"])
    found, _ = simulated(case, replica(case, memory), in_flight=full)
    rate = found.finished / found.lasts_s
    return float(speed.saturation_per_s[0]) / rate, rate


@pytest.mark.parametrize(("name", "data"), [("Qwen/Qwen3-30B-A3B", 4), ("deepseek-ai/DeepSeek-V3", 8)])
def test_ranks_are_predicted_as_they_are_simulated(catalog: Catalog, name: str, data: int) -> None:
    """Ranks with equal requests start prompts together and answer more; other requests delay all ranks."""
    layout = {"tensor_parallel": 2 if data == 4 else 1, "data_parallel": data, "pipeline_parallel": 1}
    equal, faster = saturation_ratio(catalog, name, Lengths(500.0, 500.0), **layout)
    varied_lengths, slower = saturation_ratio(catalog, name, Lengths(500.0, 1000.0), **layout)
    assert equal == pytest.approx(1, abs=0.2)
    assert varied_lengths == pytest.approx(1, abs=0.2)
    assert faster > 1.2 * slower
