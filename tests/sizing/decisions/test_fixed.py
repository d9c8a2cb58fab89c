"""Machines of a deployment that somebody names."""

from __future__ import annotations

import pytest

from app.errors import Conflict
from app.sizing.decisions.fixed import least_in_one, machines_for, most_in_one
from app.sizing.question import Deployment, Question
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, RARE, SMALL

QUESTION = Question(STEADY)


def test_a_named_offer_is_taken_and_one_that_nobody_makes_is_a_conflict() -> None:
    found = machines_for(QUESTION, Deployment(BIG.slug, provider="sky", region="us-1"), SMALL)
    assert most_in_one(found) == 8
    with pytest.raises(Conflict, match="no such listing"):
        machines_for(QUESTION, Deployment(BIG.slug, provider="cloudy"), SMALL)


def test_what_nobody_sells_stands_in_a_machine_without_a_price() -> None:
    assert len(machines_for(QUESTION, Deployment(RARE.slug), SMALL)) == 1


def test_a_machine_is_to_carry_a_replica_or_what_the_machines_given_carry() -> None:
    assert least_in_one(QUESTION, Deployment(BIG.slug, nodes=2, total_accelerators=16)) == 8
    assert least_in_one(QUESTION, Deployment(BIG.slug, tensor_parallel=4)) == 4
    assert least_in_one(QUESTION, Deployment(BIG.slug, accelerators_per_replica=64)) == 1
