"""Every assumption has a range and can be overridden."""

from __future__ import annotations

from dataclasses import fields

import pytest

from app.sizing.assumptions import Assumptions


def test_assumptions_refuse_what_is_out_of_range() -> None:
    changed = Assumptions().with_overrides({"target_utilization": 0.5})
    assert changed.target_utilization == 0.5
    with pytest.raises(Exception, match="must be between"):
        Assumptions().with_overrides({"target_utilization": 7})
    with pytest.raises(Exception, match="Unknown assumption"):
        Assumptions().with_overrides({"luck": 1})


def test_every_assumption_says_what_it_is_within_which_range_and_where_it_is_from() -> None:
    for field in fields(Assumptions):
        facts = field.metadata
        assert facts["low"] <= field.default <= facts["high"], field.name
        assert all(facts[k] for k in ("unit", "reason", "source", "as_of")), field.name
        assert len(facts["reason"]) <= 60, field.name


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
