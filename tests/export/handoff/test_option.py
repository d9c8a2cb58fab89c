"""Texts that every reader reads back as they were. Replicas that follow a day: how many, by what, and where
nothing is said.
"""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.export.handoff.option import (
    MAX_SCALE_DOWN_DELAY_S,
    ReplicaRange,
    build_script,
    dns_label,
    replica_range,
    scaling_notes,
    yaml_text,
)
from tests.export.handoff.stored import DAY, USED, option, pooled, served, start

TRICKY = (
    "on",
    "no",
    "y",
    "1e3",
    "0x1f",
    "1_000",
    ".5",
    "null",
    "~",
    "2026-11-23",
    "12:30:45",
    "a: b",
    "a #b",
    "- x",
    "",
)


@pytest.mark.parametrize("text", TRICKY)
def test_names_that_look_like_something_else_are_quoted(text: str) -> None:
    written = yaml_text({"name": text})
    assert written == f'name: "{text}"\n'
    assert yaml.safe_load(written) == {"name": text}


@given(st.recursive(st.text(max_size=8) | st.integers() | st.booleans(), lambda inner: st.lists(inner, max_size=3)))
def test_written_values_are_read_back(value: object) -> None:
    assert yaml.safe_load(yaml_text({"value": value})) == {"value": value}


def test_scripts_stand_in_yaml_as_they_are() -> None:
    assert "run: |\n  set -e\n  exec x\n" in yaml_text({"run": "set -e\nexec x\n"})


def test_the_same_value_twice_is_written_twice() -> None:
    each = {"a": 1}
    assert "&" not in yaml_text({"one": each, "two": each})


@given(st.text(max_size=100))
def test_a_label_is_one_of_dns(name: str) -> None:
    made = dns_label(name, "prefill")
    assert len(made) <= 63
    assert made.replace("-", "").isalnum()
    assert made.isascii()
    assert made[0].isalpha()
    assert made[-1] != "-"
    assert made == made.lower()


def test_a_script_says_what_it_is_of_and_stops_at_a_failure() -> None:
    assert build_script(("of this",), "run").splitlines() == [
        "#!/usr/bin/env bash",
        "# of this",
        "set -euo pipefail",
        "run",
    ]


def test_a_day_says_between_how_many_replicas_and_what_one_bears() -> None:
    found = replica_range(served(day=DAY))
    assert found == ReplicaRange(min_replicas=2, max_replicas=3, spares=1, peak_per_s=8.0, start_s=95.5)
    assert found.rate_without_spares == 4.0  # of two that are needed
    assert found.rate_with_spares == 2.66  # of three
    assert found.scale_down_delay_s == 96


@given(st.integers(2, 300), st.integers(0, 3), st.floats(1e-3, 1e5))
def test_at_the_peak_all_replicas_run(needed: int, spares: int, peak: float) -> None:
    found = ReplicaRange(min_replicas=1, max_replicas=needed + spares, spares=spares, peak_per_s=peak, start_s=1e6)
    assert math.ceil(peak / found.rate_without_spares) + spares >= found.max_replicas
    assert math.ceil(peak / found.rate_with_spares) >= found.max_replicas
    assert found.rate_without_spares >= 0.98 * peak / needed  # and none are asked for that no load needs
    assert found.scale_down_delay_s == MAX_SCALE_DOWN_DELAY_S


def test_without_hours_nothing_follows() -> None:
    assert replica_range(served()) is None
    assert scaling_notes(served()) == ()
    even = {**DAY, "autoscaled": {"least_replicas": 3}}
    assert replica_range(served(day=even)) is None
    assert replica_range(pooled()) is None


def test_notes_state_the_replicas_and_the_ramp() -> None:
    notes = " ".join(scaling_notes(served(day=DAY)))
    assert "Autoscaling runs 2 to 3 replicas, one per 4 requests/s." in notes
    assert "too long for this day's ramp" in notes
    assert "costs no more" in " ".join(scaling_notes(served(day={**DAY, "cheaper": "fixed"})))


def test_a_rack_gives_the_accelerators_of_one_host() -> None:
    each = start("vllm", USED["vllm"])
    assert option(each).groups[0].machine_accelerators == 8  # 80 accelerators in 10 machines
    assert option({**each, "hosts": 4, "machines": 4}).groups[0].machine_accelerators == 2
    assert option({**each, "hosts": 8}).groups[0].machine_accelerators == 8  # chips that are rented one by one
