"""Price observations as files: CSV compressed with gzip, or Parquet."""

from __future__ import annotations

import csv
import gzip
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.catalog.observations import EXPORT_COLUMNS
from app.extras import import_extra

Batches = Iterable[Sequence[tuple[Any, ...]]]
NUMBERS = ("accelerator_count", "native_amount", "usd_per_hour")


@contextmanager
def replaced_when_whole(path: Path) -> Iterator[Path]:
    """Yields a new file next to a path, which takes its place when the block ends. After an error, the path is as it
    was, and the new file is gone. Raises OSError.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_csv(path: Path, batches: Batches) -> int:
    """Writes observations as CSV, compressed with gzip, and returns their number. Raises OSError."""
    count = 0
    with replaced_when_whole(path) as new, gzip.open(new, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(EXPORT_COLUMNS)
        for batch in batches:
            writer.writerows((moment.isoformat(), *rest) for moment, *rest in batch)
            count += len(batch)
    return count


def write_parquet(path: Path, batches: Batches) -> int:
    """Writes observations as Parquet, compressed with Zstandard, and returns their number. Raises OSError, and
    MissingExtra without PyArrow.
    """
    arrow = import_extra("pyarrow", "parquet", "The format Parquet")
    parquet = import_extra("pyarrow.parquet", "parquet", "The format Parquet")
    types = {"observed_at": arrow.timestamp("us", tz="UTC")} | dict.fromkeys(NUMBERS, arrow.float64())
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in EXPORT_COLUMNS])
    count = 0
    with replaced_when_whole(path) as new, parquet.ParquetWriter(new, schema, compression="zstd") as writer:
        for batch in batches:
            columns = [
                arrow.array(values, field.type) for values, field in zip(zip(*batch, strict=True), schema, strict=True)
            ]
            writer.write_batch(arrow.record_batch(columns, schema=schema))
            count += len(batch)
    return count
