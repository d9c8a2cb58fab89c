"""Every assumption has a range and can be overridden."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

import pytest

from app.sizing.assumptions import ROWS, Assumptions, names_in, with_rows
from app.sizing.facts import InvalidFact
from app.sizing.model.figures import CountingFigures


def test_assumptions_refuse_what_is_out_of_range() -> None:
    changed = Assumptions().with_overrides({"target_utilization": 0.5})
    assert changed.target_utilization == 0.5
    with pytest.raises(Exception, match="must be between"):
        Assumptions().with_overrides({"target_utilization": 7})
    with pytest.raises(Exception, match="Unknown assumption"):
        Assumptions().with_overrides({"luck": 1})


@pytest.mark.parametrize("field", [*fields(Assumptions), *fields(CountingFigures)], ids=lambda f: f.name)
def test_every_assumption_says_what_it_is_within_which_range_and_where_it_is_from(field: Field[Any]) -> None:
    facts = field.metadata
    assert facts["low"] <= field.default <= facts["high"]
    assert all(facts[k] for k in ("unit", "reason", "source", "as_of"))
    assert len(facts["reason"]) <= 60 or field.name in names_in("counting")  # answers show no figures of counting


def test_every_row_is_declared_once_in_the_order_of_the_file() -> None:
    assert [*ROWS] == [f.name for f in (*fields(Assumptions), *fields(CountingFigures))]


def test_a_declared_name_without_a_row_is_refused() -> None:
    with pytest.raises(InvalidFact, match="'luck' has no row"):
        with_rows(type("Lucky", (), {"__annotations__": {"luck": float}}))


def test_what_is_read_is_noted_once_and_what_is_set_is_asked_for() -> None:
    assumed = Assumptions().with_recording({"pue": 1.1})
    assert assumed.max_samples == assumed.max_samples == Assumptions().max_samples
    shown = {a.name: a for a in assumed.used_assumptions()}
    assert shown.keys() == {"pue", "max_samples"}
    assert (shown["pue"].value, shown["pue"].asked) == (1.1, True)
    assert (shown["max_samples"].value, shown["max_samples"].asked) == (Assumptions().max_samples, False)


def test_noting_is_for_one_answer() -> None:
    first, second = Assumptions().with_recording(), Assumptions().with_recording()
    assert first.pue > 1
    assert second.used_assumptions() == ()
    assert first.with_recording() is first
