"""Price observations as CSV and as Parquet."""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.catalog.observations import EXPORT_COLUMNS
from app.export.observations import Batches, write_csv, write_parquet
from app.extras import MissingExtra
from tests.catalog.observed import L4

MOMENT = datetime(2026, 10, 1, 12, tzinfo=UTC)
ROW = (MOMENT, *L4, None, 0.8, "USD", 0.8, None, "instance_hour", "gcp", "v1", "0" * 64)
LATER = (MOMENT.replace(day=2), *ROW[1:7], "2026-10-02", *ROW[8:])
BATCHES = ([ROW, ROW], [LATER])


def test_csv_has_all_observations_in_order(tmp_path: Path) -> None:
    assert write_csv(tmp_path / "prices.csv.gz", BATCHES) == 3
    with gzip.open(tmp_path / "prices.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert [row["observed_at"] for row in rows] == ["2026-10-01T12:00:00+00:00"] * 2 + ["2026-10-02T12:00:00+00:00"]
    assert (rows[0]["instance_type"], rows[0]["usd_per_hour"], rows[2]["effective_from"]) == (
        "g2-standard-4",
        "0.8",
        "2026-10-02",
    )


def test_parquet_keeps_types_and_what_is_unknown(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert write_parquet(tmp_path / "prices.parquet", BATCHES) == 3
    table = parquet.read_table(tmp_path / "prices.parquet")
    assert table.column_names == list(EXPORT_COLUMNS)
    assert [tuple(row.values()) for row in table.to_pylist()] == [ROW, ROW, LATER]
    assert write_parquet(tmp_path / "none.parquet", ()) == 0
    assert parquet.read_table(tmp_path / "none.parquet").num_rows == 0


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_an_error_leaves_the_earlier_file_and_no_part_of_a_new_one(
    write: Callable[[Path, Batches], int], tmp_path: Path
) -> None:
    if write is write_parquet:
        pytest.importorskip("pyarrow.parquet")

    def broken() -> Iterator[Sequence[tuple[Any, ...]]]:
        yield [ROW] * 5_000
        raise RuntimeError("connection lost")

    target = tmp_path / "prices"
    for earlier in (None, b"earlier"):
        if earlier is not None:
            target.write_bytes(earlier)
        with pytest.raises(RuntimeError, match="connection lost"):
            write(target, broken())
        assert [file.read_bytes() for file in tmp_path.iterdir()] == ([] if earlier is None else [earlier])
    assert write(target, BATCHES) == 3 and [*tmp_path.iterdir()] == [target]


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="extra `parquet`"):
        write_parquet(tmp_path / "prices.parquet", BATCHES)
