"""The measurements of one GPU are well formed, and docs/measured.md shows what they say."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest

from app.catalog.files import read_rows
from app.catalog.snapshot import CatalogStore
from app.sizing.snapshot import Catalog
from benchmarks.gpu import compare, serve
from tests.catalogued import catalogued

ROOT = Path(__file__).parents[1]
TEXTS = (
    "key",
    "section",
    "model",
    "stack",
    "method",
    "adapters",
    "phase",
    "dtype",
    "kernel",
    "layer",
    "cache",
    "power",
)
WORDS = {*TEXTS, "recomputed", "out_of_memory"}


def test_every_row_is_one_run_of_one_point_with_positive_numbers() -> None:
    rows = compare.read_rows()
    assert max(Counter((r["key"], r["repeat"]) for r in rows).values()) == 1
    for row in rows:
        assert None not in row
        assert None not in row.values()
        numbers = {k: float(v) for k, v in row.items() if k not in WORDS and v}
        assert all(math.isfinite(v) and v >= 0 for v in numbers.values()), row
        assert numbers.get("seconds", 1.0) > 0
        assert row["seconds"] or row["power_w"] or row["out_of_memory"] == "true", row["key"]
        if row["seconds_p10"] and row["seconds_p90"]:
            assert numbers["seconds_p10"] <= numbers["seconds"] <= numbers["seconds_p90"] * 1.001, row["key"]


def test_repeats_of_a_point_describe_the_same_work() -> None:
    described = ("model", "stack", "phase", "batch", "context", "micro_batch", "sequence", "recomputed", "m", "n", "k")
    seen: dict[str, tuple[str, ...]] = {}
    for row in compare.read_rows():
        assert seen.setdefault(row["key"], tuple(row[k] for k in described)) == tuple(row[k] for k in described)


def test_the_card_is_the_one_of_the_catalog_and_ran_at_its_full_clock() -> None:
    machine = compare.read_machine()
    card = catalogued(machine["accelerator"])
    assert card.power_w == float(machine["power_limit_w"])
    clocks = [float(r["sm_mhz"]) for r in compare.read_rows() if r["key"] == "clock under copy"]
    assert min(clocks) >= 0.95 * float(machine["max_sm_mhz"])


def test_no_kernel_is_faster_than_the_data_sheet_allows() -> None:
    card = catalogued(compare.ACCELERATOR)
    assert card.memory_bytes_per_s is not None
    for p in compare.read_points():
        if p.key.startswith(("gemm", "copy")):
            assert p.number("bytes") / p.seconds < card.memory_bytes_per_s or p.number("bytes") < 60e6, p.key
            assert p.number("flops") / p.seconds < card.flops_per_s[p.row["dtype"] or "bf16"], p.key


def test_the_rows_are_in_no_table_that_the_fit_reads() -> None:
    for path in (ROOT / "app" / "catalog" / "data").glob("measurements_*.csv"):
        assert compare.SOURCE not in path.read_text()


def test_the_page_shows_the_rows_and_the_predictions_of_this_tree(
    catalog: Catalog, catalog_store: CatalogStore
) -> None:
    shown = compare.shown_tables(compare.PAGE.read_text())
    fresh = compare.tables(catalog, catalog_store.find_model).strip() + "\n"
    assert shown == fresh, "Run: make artefacts PART=measured"


def test_points_become_rows_of_the_same_table() -> None:
    points = (
        {"key": "a", "section": "gemms", "repeat": 1, "recomputed": True, "seconds": 0.0123456789, "flops": 4e9},
        {"key": "machine", "section": "machine"},
        {"key": "b", "section": "gemms", "error": "no memory"},
    )
    out = StringIO()
    compare.write_rows(map(json.dumps, points), ["key", "recomputed", "seconds", "flops", "bytes"], out)
    assert out.getvalue() == "key,recomputed,seconds,flops,bytes\na,true,0.012346,4000000000,\n"


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks" / "gpu").glob("own-*.jsonl")), ids=lambda file: file.stem)
def test_served_points_are_rows_of_the_table_of_results(file: Path) -> None:
    rows = serve.rows_of([json.loads(line) for line in file.read_text().splitlines()], file.stem)
    table = [row for row in read_rows("measurements_inference.csv") if row["source_key"] == file.stem]
    assert [{k: v for k, v in row.items() if v and k != "notes"} for row in table] == [
        {k: v for k, v in row.items() if v} for row in rows
    ]
    assert rows


@pytest.mark.torch
def test_the_script_measures_tiny_shapes_on_a_processor_and_continues(tmp_path: Path) -> None:
    out = tmp_path / "points.jsonl"
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(ROOT / "benchmarks" / "gpu" / "measure.py"),
        "--tiny",
        "--out",
        str(out),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    points = [json.loads(line) for line in out.read_text().splitlines()]
    assert not [p for p in points if "error" in p]
    assert {"prefill", "decode", "generate", "training"} <= {p.get("phase") for p in points}
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    again = [json.loads(line)["key"] for line in out.read_text().splitlines()[len(points) :]]
    assert set(again) == {"machine", "clock under copy", "anchor bf16"}
