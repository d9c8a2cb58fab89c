"""Margins of sizing: none at 50 %, more with every confidence, most without measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Indexed
from app.sizing.model.sample import SampleWork
from app.sizing.question import Constraints
from app.sizing.serving.margins import Margins, margins_at, plan_neighbourhoods, spread_names
from app.sizing.uncertainty import NORMAL, EvidenceIndex, Neighborhood, Spread, Spreads, sample_spreads
from app.sizing.workload import InferenceWorkload, Load
from tests.examples import col
from tests.sizing.serving.given import DENSE, STEADY, planned, varied

WORSE = (-0.6, -0.4, -0.2, 0.0, 0.3, 0.5, 0.7)
SPREADS = Spreads(
    {name: Spread(name, alone=3.0, remote=1.0, untabulated=0.0, worse=WORSE, rows=9, sources=3) for name in ("tpot",)}
    | {"throughput": Spread("throughput", 0.0, 0.0, 0.0, tuple(2 * w for w in WORSE), 9, 3)}
)
# With endless sources at distance 0; without sources at distance 1.
AROUND = Neighborhood(col(1e12, 0.0), col(0.0, 1.0), col(0.0, 0.0), col(1.0, 1.0))


def margins(confidence: float, workload: InferenceWorkload = STEADY) -> Margins:
    return margins_at(NORMAL.inv_cdf(confidence), workload, AROUND, SPREADS, Assumptions())


def test_even_odds_leave_everything_as_predicted() -> None:
    found = margins(0.5)
    for name in ("rate", "tpot", "ttft"):
        assert getattr(found, name).tolist() == [1, 1], name
    assert found.memory_share.tolist() == [0, 0]


def test_a_margin_is_the_quantile_of_its_own_errors() -> None:
    """At 80 % TPOT takes e^0.3 at distance 0 from results, and sqrt(1 + 3 + 1) times that logarithm far off."""
    found = margins(0.8)
    assert found.tpot.tolist() == pytest.approx([np.exp(0.3), np.exp(0.3 * 5**0.5)])
    assert found.rate.tolist() == pytest.approx([np.exp(0.6)] * 2)
    assert found.ttft.tolist() == pytest.approx([np.exp(0.45)] * 2)  # nothing is known: the wide one
    assert found.memory_share.tolist() == pytest.approx([0.8416 * 0.03] * 2, rel=1e-3)


@pytest.mark.parametrize("name", ["rate", "tpot", "ttft", "memory_share"])
def test_more_confidence_takes_more_margin(name: str) -> None:
    found = [getattr(margins(c), name)[1] for c in (0.5, 0.6, 0.8, 0.9, 0.95)]
    assert found == sorted(set(found))


def test_each_load_is_off_by_its_own_errors() -> None:
    assert spread_names(STEADY) == ("throughput", "tpot", "ttft")
    assert spread_names(varied(load=Load.CLOSED, in_flight=1.0)) == ("single_stream", "single_stream", "ttft")
    assert spread_names(varied(load=Load.CLOSED, in_flight=2.0)) == ("throughput", "tpot", "ttft")
    assert spread_names(varied(model=replace(DENSE, sample=SampleWork(flops=1e9)))) == (
        "samples",
        *["sample_latency"] * 2,
    )


def test_only_some_rows_keep_their_margins() -> None:
    found = margins(0.9).restrict_to(np.array([False, True]))
    assert (found.tpot[0], found.rate[0], found.ttft[0], found.memory_share[0]) == (1, 1, 1, 0)
    assert found.tpot[1] == margins(0.9).tpot[1]
    assert len(Margins.without_margin(3)) == 3


def test_intervals_are_wider_where_only_rules_say_that_it_runs() -> None:
    on_big = Constraints(accelerators=("acme-big",), weight_formats=("bf16",))
    plans, assumed = planned(constraints=on_big), Assumptions()
    stacks = plans.stacks.table
    count = int(stacks.evidence_stack.max()) + 1
    evidence = EvidenceIndex(
        np.zeros((count, 1)), np.full(count, 4.0), np.zeros(count), np.zeros((3, 1)), np.array([0])
    )
    known = plan_neighbourhoods(STEADY, plans, evidence, assumed)
    assert known.prior_width.tolist() == [1] * len(plans)
    by_rules = replace(plans, stacks=Indexed(replace(stacks, expected=~stacks.expected), plans.stacks.rows))
    found = plan_neighbourhoods(STEADY, by_rules, evidence, assumed)
    spread = SPREADS.get_spread("tpot")
    assert spread.relative_spread(found).tolist() == pytest.approx((1.3 * spread.relative_spread(known)).tolist())


def test_samples_are_off_by_what_their_published_results_were_wherever_they_run() -> None:
    """Measured over predicted 0.6 at the tenth percentile: at 90 % a batch takes 1 / 0.6 times as long."""
    spread, latency = sample_spreads(0.6, 1.9)
    scale = spread.relative_spread(AROUND)
    assert spread.error_factor(0.9, scale).tolist() == pytest.approx([1 / 0.6] * 2)
    assert spread.error_factor(0.1, scale).tolist() == pytest.approx([1 / 1.9] * 2)
    assert spread.error_factor(0.5, scale).tolist() == [1, 1]
    assert list(spread.worse) == sorted(latency.worse)


def test_a_whole_request_takes_the_margin_of_its_first_token_and_that_of_the_others() -> None:
    """1 s to the first token at 1.5 times and 4 s of others at 1.2 times; no number minus infinity is asked."""
    factors = Margins(col(1, 1), col(1.2, 1.2), col(1.5, 1.5), col(0, 0))
    assert factors.request_s(col(1, 1), col(5, np.inf)).tolist() == [pytest.approx(1.5 + 4.8), np.inf]
    assert factors.request_s(col(5, 5), col(5, 5)).tolist() == pytest.approx([7.5, 7.5])
    assert Margins.without_margin(2).request_s(col(1, 2), col(5, 6)).tolist() == [5, 6]
