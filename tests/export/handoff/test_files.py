"""Texts that every reader reads back as they were."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.export.handoff.files import build_script, dns_label, yaml_text

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
