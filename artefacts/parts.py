"""Parts that are generated: the inputs and outputs of each, and the module that writes it.

This module computes only digests. A part is current if the digests of its inputs and outputs match its stamp.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.catalog.names import fold_name
from app.compiled import ROOT, CodeBase
from artefacts.blocks import asked_text, shown_answers, written_by_hand

DATA = ROOT / "app" / "catalog" / "data"
FACTS = ROOT / "app" / "sizing" / "data"
STAMP = ROOT / "artefacts" / "stamp.json"
MEASURED = ("measurements_inference.csv", "measurements_training.csv", "measurements_kv_cache.csv")
FITTED = ("factors.csv", "spreads.csv", "predictions.csv", "accuracy.json")
Digests = dict[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """One part: `module` has a function `write()`; `inputs` and `outputs` are digests by name."""

    name: str
    module: str
    inputs: Callable[[], Digests]
    outputs: Callable[[], Digests]


@cache
def sources() -> CodeBase:
    return CodeBase()


def content_digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


def file_digests(*paths: Path) -> Digests:
    return {
        path.relative_to(ROOT).as_posix(): content_digest(path.read_bytes()) if path.exists() else "missing"
        for path in paths
    }


@cache
def data_rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((DATA / name).read_text())))


def rows_digest(found: Iterable[Mapping[str, object]]) -> str:
    return content_digest("\n".join(sorted(json.dumps(row, sort_keys=True) for row in found)))


def facts_digests() -> Digests:
    """The data files that are part of the engine rather than of a catalog version."""
    return file_digests(*sorted(FACTS.iterdir()), DATA / "names.toml")


def fit_data() -> Digests:
    """The data of the fit: the facts, the measurements, and the parts of the catalog that they reference.

    Accelerators, offers and models without measurements change no factor.
    """
    measured = [row for name in MEASURED for row in data_rows(name)]
    accelerators = {row["accelerator"] for row in measured}
    models = {fold_name(row["model"]) for row in measured}
    devices = [row for row in data_rows("accelerators.csv") if row["slug"] in accelerators]
    families = {row["family"] for row in devices}
    listed = [json.loads(line) for line in (DATA / "models.jsonl").read_text().splitlines()]
    return {
        **facts_digests(),
        **file_digests(*(DATA / name for name in (*MEASURED, "coefficients.csv"))),
        "accelerators that were measured": rows_digest(devices),
        "their systems": rows_digest(
            row for row in data_rows("systems.csv") if row["accelerator_slug"] in accelerators
        ),
        "their offers": rows_digest(row for row in data_rows("offers.csv") if row["accelerator"] in accelerators),
        "their engines": rows_digest(
            row for row in data_rows("engine_support.csv") if row["accelerator_family"] in families
        ),
        "models that were measured": rows_digest(
            m for m in listed if models & {fold_name(name) for name in (m["hf_id"], *(m["aliases"] or ()))}
        ),
    }


def fit_inputs() -> Digests:
    tables = file_digests(*sorted((ROOT / "calibration").rglob("*.toml")))
    return {"code of the fit": sources().digest_from(["calibration.calibrate"]), **fit_data(), **tables}


def fit_outputs() -> Digests:
    return file_digests(*(DATA / name for name in FITTED))


def accuracy_inputs() -> Digests:
    code = sources().digest_from(["artefacts.accuracy_page"])
    return {"code of the page": code, **file_digests(*(DATA / name for name in (*FITTED, *MEASURED)))}


def accuracy_outputs() -> Digests:
    plots = ("by-family", "intervals", "kv-cache", "predicted-over-measured")
    return file_digests(ROOT / "docs" / "accuracy.md", *(ROOT / "docs" / "accuracy" / f"{name}.svg" for name in plots))


def engine_inputs() -> Digests:
    """Digests of the pages, which contain the docstrings and formulas of `app/sizing` and the tests that use them."""
    from artefacts import engine_page, nomenclature  # noqa: PLC0415  (imports the whole core)

    return {"engine page": content_digest(engine_page.page()), "nomenclature": content_digest(nomenclature.page())}


def engine_outputs() -> Digests:
    return file_digests(ROOT / "docs" / "engine.md", ROOT / "docs" / "nomenclature.md")


@cache
def answer_inputs() -> Digests:
    """The code of the whole service and the fitted files; tests cover how other data change an answer."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / "app").rglob("*.py"))
    ]
    bodies = sorted((ROOT / "tests" / "api" / "bodies").glob("*.json"))
    return {
        "code of the service": sources().digest_from(modules),
        "worked requests": rows_digest([file_digests(*bodies)]),
        **facts_digests(),
        **fit_outputs(),
    }


def client_inputs() -> Digests:
    code = sources().digest_from(["artefacts.client_types"])
    return {"code of the service": answer_inputs()["code of the service"], "code of the types": code}


def examples_inputs() -> Digests:
    return {**answer_inputs(), "code of the examples": sources().digest_from(["artefacts.examples"])}


def documents_inputs() -> Digests:
    modules = [f"artefacts.{name}" for name in ("documents", "decisions")]
    return {
        **answer_inputs(),
        "code of the documents": sources().digest_from(modules),
        "what the documents ask": content_digest("".join(asked_text(path) for path in written_by_hand())),
        **file_digests(ROOT / "artefacts" / "decisions.json"),
    }


def documents_outputs() -> Digests:
    """The answers that pages show, without their prose."""
    parts = {path.relative_to(ROOT).as_posix(): shown_answers(path) for path in written_by_hand()}
    pages = file_digests(ROOT / "docs" / "decisions.md")
    return {**{f"{name}, answers": content_digest(text) for name, text in parts.items() if text}, **pages}


def measured_inputs() -> Digests:
    """The code and the data of the predictions, and the points that they are compared with."""
    from benchmarks.gpu import compare  # noqa: PLC0415  (imports the whole core)

    code = sources().digest_from(["benchmarks.gpu.compare"])
    return {"code of the comparison": code, **fit_outputs(), **facts_digests(), **file_digests(*compare.FILES)}


def measured_outputs() -> Digests:
    from benchmarks.gpu import compare  # noqa: PLC0415

    return {"docs/measured.md, tables": content_digest(compare.shown_tables(compare.PAGE.read_text()))}


def deployed_inputs() -> Digests:
    code = sources().digest_from(["artefacts.deployed"])
    return {**answer_inputs(), "code of the page": code, **file_digests(ROOT / "artefacts" / "deployed.json")}


def held_inputs() -> Digests:
    """The code of the page and the figures; `python -m benchmarks.held` measures them."""
    code = sources().digest_from(["artefacts.held"])
    return {"code of the page": code, **file_digests(ROOT / "artefacts" / "held.json")}


PARTS = (
    Part("factors", "artefacts.fit", fit_inputs, fit_outputs),
    Part("accuracy", "artefacts.accuracy_page", accuracy_inputs, accuracy_outputs),
    Part("engine", "artefacts.engine_page", engine_inputs, engine_outputs),
    Part(
        "client", "artefacts.client_types", client_inputs, lambda: file_digests(ROOT / "headroom_client" / "answers.py")
    ),
    Part(
        "examples",
        "artefacts.examples",
        examples_inputs,
        lambda: file_digests(ROOT / "app" / "api" / "examples" / "schemas.json"),
    ),
    Part("documents", "artefacts.documents", documents_inputs, documents_outputs),
    Part("measured", "benchmarks.gpu.compare", measured_inputs, measured_outputs),
    Part("held", "artefacts.held", held_inputs, lambda: file_digests(ROOT / "docs" / "held.md")),
    Part("deployed", "artefacts.deployed", deployed_inputs, lambda: file_digests(ROOT / "docs" / "deployed.md")),
)


def read_stamps() -> dict[str, dict[str, Digests]]:
    found: dict[str, dict[str, Digests]] = json.loads(STAMP.read_text()) if STAMP.exists() else {}
    return found


def stamp_of(part: Part) -> dict[str, Digests]:
    return {"made_from": part.inputs(), "made": part.outputs()}


def changed_digests(part: Part) -> list[str]:
    """Names of inputs and outputs that differ from a part's stamp."""
    said, now = read_stamps().get(part.name, {}), stamp_of(part)
    return [
        name
        for side in ("made_from", "made")
        for name in sorted({**said.get(side, {}), **now[side]})
        if said.get(side, {}).get(name) != now[side].get(name)
    ]


def write_stamp(part: Part, **further: Digests) -> None:
    """Stamps a part with its current digests; its output may be code that other parts depend on."""
    sources.cache_clear()
    known = {each.name for each in PARTS}
    found = {name: said for name, said in read_stamps().items() if name in known}
    found[part.name] = stamp_of(part) | further
    STAMP.write_text(json.dumps(found, indent=1) + "\n")
