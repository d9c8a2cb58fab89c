"""The table of advice: every row is used, names known codes, and states what a finding needs."""

from __future__ import annotations

import re
from pathlib import Path

import app.sizing.diagnosis
from app.sizing.diagnosis.findings import ADVICE, build_finding

SOURCE = "".join(file.read_text() for file in Path(app.sizing.diagnosis.__file__).parent.glob("*.py"))


def test_findings_follow_only_from_codes_of_the_table() -> None:
    for advice in ADVICE.values():
        assert {*advice.explains, *advice.accounts_for} <= ADVICE.keys(), advice.code
        assert advice.code not in (*advice.explains, *advice.accounts_for)


def test_every_row_is_a_finding_of_some_check() -> None:
    quoted = set(re.findall(r'"([a-z_]+)"', SOURCE)) | {"longer_prompts", "longer_answers"}
    assert ADVICE.keys() <= quoted


def test_placeholders_of_the_advice_are_filled_in() -> None:
    found = build_finding("overloaded", "Too many.", 0.5, (), replicas="3 replicas", now=2)
    assert found.change == "Run 3 replicas instead of 2, or reject excess requests."
    assert found.do_not_buy == "faster accelerators: more accelerators of the same type are enough"
    assert "idle_fleet" in found.explains
