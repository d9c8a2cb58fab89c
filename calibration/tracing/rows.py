"""Rows of the grid as text: a setup and the memory of its step; needs no PyTorch."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from app.catalog.files import read_data_file
from calibration.tracing.setups import GIB_BYTES, MOMENTS, PARTS, Setup, Traced
from calibration.tracing.shapes import shape_of

# Models of the grid that are not in the catalog.
OTHER_CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "stabilityai/stablelm-base-alpha-3b": {
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 16384,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "vocab_size": 50688,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    }
}
SETUP_FIELDS = tuple(f.name for f in fields(Setup) if f.name != "shape")
OTHER_TOOL_COLUMNS = (
    "elsewhere_peak_gib",
    "elsewhere_reserved_gib",
)  # same setup, traced by another tool, PyTorch 2.15
COLUMNS = (
    *(
        "model",
        "layers",
        *SETUP_FIELDS,
        *OTHER_TOOL_COLUMNS,
        "peak_gib",
        "reserved_gib",
        "moment",
        "operator",
        "params",
    ),
    *(f"{part}_gib" for part in PARTS),
    *(f"moment_{moment}_gib" for moment in MOMENTS),
)


@cache
def model_configs() -> Mapping[str, Mapping[str, Any]]:
    entries = (json.loads(line) for line in read_data_file("models.jsonl").splitlines() if line)
    return {**{entry["hf_id"]: entry["config"] for entry in entries}, **OTHER_CONFIGS}


@dataclass(frozen=True, slots=True)
class Case:
    """One row: a model (whole if `layers` is 0, else its first layers) and its training setup."""

    model: str
    layers: int
    setup: Setup
    elsewhere: tuple[str, str] = ("", "")

    @property
    def model_config(self) -> dict[str, Any]:
        return cut_layers(model_configs()[self.model], self.layers)


def cut_layers(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Configuration of the first layers of a model; of all layers if 0."""
    counted = next(name for name in ("num_hidden_layers", "n_layer", "n_layers") if name in config)
    return {**config, counted: layers} if layers else dict(config)


def case_of(model: str, layers: int = 0, **said: Any) -> Case:
    """The case of a model ID and fields of its setup."""
    return Case(model, layers, Setup(shape=shape_of(cut_layers(model_configs()[model], layers), model), **said))


def row_of(case: Case, traced: Traced) -> dict[str, str]:
    said = {name: value for name, value in asdict(case.setup).items() if name != "shape"}
    figures = {"peak_gib": traced.peak_bytes, "reserved_gib": traced.reserved_bytes}
    figures |= {f"{part}_gib": traced.parts[part] for part in PARTS}
    figures |= {f"moment_{moment}_gib": traced.moments[moment] for moment in MOMENTS}
    text = {
        "model": case.model,
        "layers": case.layers,
        **said,
        **dict(zip(OTHER_TOOL_COLUMNS, case.elsewhere, strict=True)),
        "moment": traced.moment,
        "operator": traced.operator,
        "params": traced.params,
    }
    return {**{k: str(v) for k, v in text.items()}, **{k: f"{v / GIB_BYTES:.5g}" for k, v in figures.items()}}


def parse_row(row: Mapping[str, str]) -> tuple[Case, Traced]:
    said = {f.name: _parse_value(row[f.name], f.default) for f in fields(Setup) if f.name != "shape"}
    case = replace(
        case_of(row["model"], int(row["layers"]), **said),
        elsewhere=(row[OTHER_TOOL_COLUMNS[0]], row[OTHER_TOOL_COLUMNS[1]]),
    )
    traced = Traced(
        peak_bytes=float(row["peak_gib"]) * GIB_BYTES,
        reserved_bytes=float(row["reserved_gib"]) * GIB_BYTES,
        moment=row["moment"],
        operator=row["operator"],
        parts={part: float(row[f"{part}_gib"]) * GIB_BYTES for part in PARTS},
        moments={moment: float(row[f"moment_{moment}_gib"]) * GIB_BYTES for moment in MOMENTS},
        params=int(row["params"]),
    )
    return case, traced


def _parse_value(text: str, default: object) -> Any:
    if isinstance(default, bool):
        return text == "True"
    return text if isinstance(default, str) else int(text)


def rows_in(path: Path) -> Iterator[tuple[Case, Traced]]:
    """Every row of a grid file."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from map(parse_row, csv.DictReader(file))


def write_grid(path: Path, rows: Iterable[tuple[Case, Traced]]) -> None:
    """Writes a grid file; each row is flushed when its trace is complete."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for case, traced in rows:
            writer.writerow(row_of(case, traced))
            file.flush()
