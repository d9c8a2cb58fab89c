"""The curated slices of cards: named as the driver names them, of cards that exist, each with its source."""

from __future__ import annotations

import re

import pytest

from app.catalog.files import read_rows
from app.catalog.slices import slice_values
from app.sizing.hardware.slices import Profile, Slice, slicings_by_accelerator

ROWS = [slice_values(row) for row in read_rows("slices.csv")]
SLICINGS = slicings_by_accelerator(
    Profile(
        row["accelerator"],
        row["name"],
        Slice(row["compute_parts"], row["memory_parts"], tuple(map(int, row["starts"].split("|")))),
    )
    for row in ROWS
)


def test_every_row_has_a_source_a_date_and_the_name_of_its_parts() -> None:
    for row in ROWS:
        assert row["source"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["as_of"])
        assert row["name"].startswith(f"{row['compute_parts']}g.")


def test_every_card_that_is_cut_is_in_the_catalogue_and_its_whole_has_its_memory() -> None:
    memory_gb = {row["slug"]: float(row["memory_gb"] or 0) for row in read_rows("accelerators.csv")}
    for slug, slicing in SLICINGS.items():
        whole = next(s for s in slicing.slices if s.memory == slicing.memory)
        named_gb = float(slicing.profile_name(whole).split(".")[1].removesuffix("gb"))
        assert named_gb == pytest.approx(memory_gb[slug], rel=0.02)


def test_slices_lie_within_their_card() -> None:
    for slicing in SLICINGS.values():
        for each in slicing.slices:
            assert max(each.starts) + each.memory <= slicing.memory
            assert each.compute <= slicing.compute
