"""What published sources did with memory: every record is of rows that exist, and says where it was read."""

from __future__ import annotations

from typing import Any

import pytest

from app.catalog.files import read_rows
from app.sizing.hardware.recipes import VOCABULARIES
from calibration.training.recipes import SOURCES, UNREAD, Figure, SourceRecipe, recipe_of

ROWS: list[dict[str, Any]] = [dict(r) for r in read_rows("measurements_training.csv")]
PEAKS = [r for r in ROWS if r["peak_mem_gib_per_accelerator"]]


@pytest.mark.parametrize("record", SOURCES, ids=lambda r: f"{r.source} {r.where}")
def test_every_record_is_some_row_s_and_speaks_the_vocabulary(record: SourceRecipe) -> None:
    assert any(recipe_of(r) is record for r in PEAKS)
    assert record.read_in
    assert record.as_of
    for name, words in VOCABULARIES.items():
        said = getattr(record.said, name, None)
        assert said is None or said in words, name


def test_what_a_record_recomputes_is_what_its_rows_say() -> None:
    for row in PEAKS:
        said, asked = recipe_of(row).said, row["activation_checkpointing"]
        if said is not None and said.recomputation_layout is not None and asked:
            assert said.recomputation_layout == asked, row["id"]


def test_a_row_of_an_unread_source_is_compared_and_not_fitted() -> None:
    found = recipe_of({"source_key": "somewhere"})
    assert (found.said, found.figure, found.open) == (None, Figure.DRIVER, UNREAD)


@pytest.mark.parametrize(
    ("row", "figure", "loss"),
    [
        ("T00112", Figure.RESERVED, "upcast"),
        ("T04811", Figure.RESERVED, "compiled"),
        ("T04804", Figure.RESERVED, "upcast"),
        ("T01094", Figure.ALLOCATED, "compiled"),
        ("T01484", Figure.RESERVED, "held"),
        ("T01485", Figure.RESERVED, "fused"),
        ("T00604", Figure.RESERVED, "shifted"),
    ],
)
def test_rows_are_read_as_their_sources_ran(row: str, figure: Figure, loss: str) -> None:
    found = recipe_of(next(r for r in ROWS if r["id"] == row))
    assert found.said is not None
    assert (found.figure, found.said.loss) == (figure, loss)
