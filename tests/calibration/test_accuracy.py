"""The comparison with published measurements: that it asks what it says, and that units are right."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from sqlalchemy.orm import Session

from app.catalog.snapshot import CatalogStore
from app.catalog.tables import MeasurementRow
from app.db import make_engine
from benchmarks.accuracy import Compared, compare_all, compare_row, format_line, speed_rows
from calibration.case import NotCompared
from calibration.training.cases import TrainingCases


@pytest.fixture(scope="module")
def rows(sqlite_url: str) -> list[MeasurementRow]:
    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        found = speed_rows(session)
    engine.dispose()
    return found


Comparison = tuple[list[Compared], Counter[tuple[str, str]]]


@pytest.fixture(scope="module")
def sample(rows: list[MeasurementRow]) -> list[MeasurementRow]:
    return rows[::8]


@pytest.fixture(scope="module")
def compared(sample: list[MeasurementRow], catalog_store: CatalogStore) -> Comparison:
    return compare_all(sample, catalog_store)


@pytest.mark.slow
def test_every_row_is_compared_or_left_out_with_a_reason(sample: list[MeasurementRow], compared: Comparison) -> None:
    found, left_out = compared
    assert all(c.ratio > 0 and c.source for c in found)
    assert {c.metric for c in found} >= {"training tokens/s", "samples/s, resnet"}
    assert sum(left_out.values()) < len(sample)
    assert all(why for _, why in left_out)


@pytest.mark.slow
def test_units_are_right(compared: Comparison) -> None:
    """A wrong unit would be off by a thousand, a wrong count of accelerators by eight; the model itself by less than
    two.
    """
    found, _ = compared
    for metric in ("training tokens/s", "samples/s, resnet"):
        ratios = [c.ratio for c in found if c.metric == metric]
        assert len(ratios) >= 10, metric
        assert 0.5 < statistics.median(ratios) < 2, metric


def test_what_cannot_be_asked_is_said(training_cases: TrainingCases) -> None:
    nameless = MeasurementRow(id="x", kind="inference", accelerator=None, num_accelerators=1.0, payload={}, source="s")
    with pytest.raises(NotCompared, match="accelerator"):
        compare_row(nameless, training_cases)
    unknown = MeasurementRow(
        id="y",
        kind="inference",
        accelerator="nvidia-h100-sxm5-80gb",
        num_accelerators=1.0,
        model="no/such",
        payload={},
        source="s",
    )
    with pytest.raises(NotCompared, match="model"):
        compare_row(unknown, training_cases)


def test_a_line_of_the_report_counts_what_it_was_given(rows: list[MeasurementRow], catalog_store: CatalogStore) -> None:
    found, _ = compare_all(rows[::240], catalog_store)
    text = format_line("all", found)
    assert str(len(found)) in text.split()
