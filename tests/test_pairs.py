"""Pairs of requests that differ in one respect: a sample of the benchmark, and how its pairs are judged."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import islice

import pytest

from app.catalog.snapshot import CatalogStore
from app.sizing.question import Deployment
from benchmarks.pairs import (
    SMALL_STEP,
    Compared,
    Outcome,
    Pair,
    PairRunner,
    explain_cliff,
    random_pairs,
    run_pairs,
    scaled,
)

TWO = Deployment("nvidia-l4", replicas=2, nodes=2, tensor_parallel=1, engine="vllm")
CHEAP = Outcome(2.0, TWO)
PAIR = Pair("more load", {}, {}, is_small=True)


def test_a_sample_of_pairs_keeps_every_relation(
    catalog_store: CatalogStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_pairs(PairRunner(catalog_store), count=10, seed=7) == 0
    assert "violations: none" in capsys.readouterr().out


def test_a_violation_is_a_lower_cost_beyond_rounding() -> None:
    assert not Compared(PAIR, CHEAP, replace(CHEAP, usd=1.995)).is_violated
    assert Compared(PAIR, CHEAP, replace(CHEAP, usd=1.98)).is_violated
    assert Compared(PAIR, Outcome(math.inf), CHEAP).is_violated
    # Twice the load at most costs twice 2 USD, and one machine of 1 USD.
    twice = replace(PAIR, times=2.0, machines=1)
    assert not Compared(twice, Outcome(5.0, TWO), CHEAP).is_violated
    assert Compared(twice, Outcome(5.1, TWO), CHEAP).is_violated


def test_a_cliff_is_a_small_step_with_a_large_cost(catalog_store: CatalogStore) -> None:
    three = Outcome(3.0, replace(TWO, replicas=3, nodes=3))
    cliff = Compared(PAIR, CHEAP, three)
    assert cliff.is_cliff
    assert explain_cliff(PairRunner(catalog_store), cliff) == ("one machine more", "")
    four = Outcome(4.0, replace(TWO, replicas=4, nodes=4))
    assert explain_cliff(PairRunner(catalog_store), replace(cliff, more=four)) == ("several machines more", "")
    assert not replace(cliff, pair=replace(PAIR, is_small=False)).is_cliff
    assert not replace(cliff, more=Outcome(2.6, TWO)).is_cliff
    assert not replace(cliff, more=Outcome(math.inf)).is_cliff


def test_random_pairs_differ_and_repeat_with_their_seed() -> None:
    pairs = list(islice(random_pairs(random.Random(3)), 200))
    assert pairs == list(islice(random_pairs(random.Random(3)), 200))
    assert all(pair.less != pair.more for pair in pairs)
    assert len({pair.relation for pair in pairs}) > 15
    assert scaled({"mean": 100, "p95": 300}, SMALL_STEP) == {"mean": 105, "p95": 315}
