"""The generated files are the ones that the current tree generates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.api.guide import anchor_of
from artefacts import engine_page, nomenclature
from artefacts.parts import PARTS, Part, changed_digests

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_generated_files_are_of_this_tree(part: Part) -> None:
    changed = changed_digests(part)
    assert not changed, f"changed since: {', '.join(changed)}. Run: make artefacts PART={part.name}"


def test_every_heading_of_the_engine_page_has_an_anchor_of_its_own() -> None:
    headings = re.findall(r"^#+ (.*)$", engine_page.page(), re.MULTILINE)
    anchors = [anchor_of(heading) for heading in headings]
    assert sorted(anchors) == sorted(set(anchors))


def test_the_engine_page_names_constants_and_says_their_values() -> None:
    section = engine_page.page().partition("### held_logits_bytes [B]")[2].partition("\n### ")[0]
    assert "loss == FUSED" in section
    assert "(BYTES_32_BIT - BYTES_16_BIT)" in section.replace("\n        ", " ")
    assert "`BYTES_32_BIT` = 4" in section


def test_units_of_rates_say_what_they_count() -> None:
    units = {symbol.name: symbol.unit for symbol in nomenclature.all_symbols()}
    assert units["rate_per_s"] == units["load_within_limits_per_s"] == "requests/s"
    assert [units[name] for name in ("batch", "hosts", "in_flight", "replicas")] == [
        *("sequences", "hosts", "requests", "replicas"),
    ]
