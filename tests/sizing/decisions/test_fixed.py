"""Machines of a deployment that somebody names."""

from __future__ import annotations

import pytest

from app.errors import Conflict
from app.sizing.decisions.fixed import (
    filter_by_size,
    find_machines,
    max_accelerators_per_machine,
    min_accelerators_per_machine,
    unlisted_machine,
)
from app.sizing.question import Deployment, Question
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, RARE, SMALL

QUESTION = Question(STEADY)


def test_a_named_offer_is_used_and_an_unlisted_one_is_a_conflict() -> None:
    found = find_machines(QUESTION, Deployment(BIG.slug, provider="sky", region="us-1"), SMALL)
    assert max_accelerators_per_machine(found) == 8
    with pytest.raises(Conflict, match="No catalog listing"):
        find_machines(QUESTION, Deployment(BIG.slug, provider="cloudy"), SMALL)


def test_an_unlisted_part_runs_in_a_machine_without_a_price() -> None:
    assert len(find_machines(QUESTION, Deployment(RARE.slug), SMALL)) == 1


def test_a_machine_is_to_carry_a_replica_or_what_the_machines_given_carry() -> None:
    assert min_accelerators_per_machine(QUESTION, Deployment(BIG.slug, nodes=2, total_accelerators=16)) == 8
    assert min_accelerators_per_machine(QUESTION, Deployment(BIG.slug, tensor_parallel=4)) == 4
    assert min_accelerators_per_machine(QUESTION, Deployment(BIG.slug, accelerators_per_replica=64)) == 64  # racks do
    assert min_accelerators_per_machine(QUESTION, Deployment(BIG.slug, data_parallel=16, tensor_parallel=2)) == 32


def test_machines_and_accelerators_given_together_say_how_large_a_machine_is() -> None:
    given = Deployment(BIG.slug, nodes=4, total_accelerators=32)
    every = find_machines(QUESTION, given, SMALL)
    assert set(filter_by_size(every, QUESTION, given).node.accelerators_per_node.tolist()) == {8}
    other = Deployment(BIG.slug, nodes=4, total_accelerators=12)
    assert not len(filter_by_size(every, QUESTION, other))
    assert unlisted_machine(SMALL, other, QUESTION).node.accelerators_per_node.tolist() == [3]


def test_what_no_machine_comes_to_is_a_conflict() -> None:
    with pytest.raises(Conflict, match="a fraction of an accelerator"):
        unlisted_machine(SMALL, Deployment(BIG.slug, nodes=3, total_accelerators=32), QUESTION)
    with pytest.raises(Conflict, match="has another size"):
        unlisted_machine(SMALL, Deployment(BIG.slug, provider="sky", nodes=4, total_accelerators=12), QUESTION)
