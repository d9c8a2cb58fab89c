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
from app.code_digest import ROOT, CodeBase
from artefacts.blocks import asks, shown, written_by_hand

DATA = ROOT / "app" / "catalog" / "data"
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


def digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


def files(*paths: Path) -> Digests:
    return {
        path.relative_to(ROOT).as_posix(): digest(path.read_bytes()) if path.exists() else "missing" for path in paths
    }


@cache
def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((DATA / name).read_text())))


def chosen(found: Iterable[Mapping[str, object]]) -> str:
    return digest("\n".join(sorted(json.dumps(row, sort_keys=True) for row in found)))


def fit_data() -> Digests:
    """The data of the fit: the measurements, and the parts of the catalog that they reference.

    Accelerators, offers and models without measurements change no factor.
    """
    measured = [row for name in MEASURED for row in rows(name)]
    accelerators = {row["accelerator"] for row in measured}
    models = {fold_name(row["model"]) for row in measured}
    devices = [row for row in rows("accelerators.csv") if row["slug"] in accelerators]
    families = {row["family"] for row in devices}
    listed = [json.loads(line) for line in (DATA / "models.jsonl").read_text().splitlines()]
    return {
        **files(*(DATA / name for name in (*MEASURED, "coefficients.csv"))),
        "accelerators that were measured": chosen(devices),
        "their systems": chosen(row for row in rows("systems.csv") if row["accelerator_slug"] in accelerators),
        "their offers": chosen(row for row in rows("offers.csv") if row["accelerator"] in accelerators),
        "their engines": chosen(row for row in rows("engine_support.csv") if row["accelerator_family"] in families),
        "models that were measured": chosen(
            m for m in listed if models & {fold_name(name) for name in (m["hf_id"], *(m["aliases"] or ()))}
        ),
    }


def fit_inputs() -> Digests:
    return {"code of the fit": sources().digest_from(["app.calibration.calibrate"]), **fit_data()}


def fit_outputs() -> Digests:
    return files(*(DATA / name for name in FITTED))


def accuracy_inputs() -> Digests:
    code = sources().digest_from(["artefacts.accuracy_page"])
    return {"code of the page": code, **files(*(DATA / name for name in (*FITTED, *MEASURED)))}


def accuracy_outputs() -> Digests:
    plots = ("by-family", "intervals", "kv-cache", "predicted-over-measured")
    return files(ROOT / "docs" / "accuracy.md", *(ROOT / "docs" / "accuracy" / f"{name}.svg" for name in plots))


def engine_inputs() -> Digests:
    """Digests of the pages, which contain the docstrings and formulas of `app/sizing` and the tests that use them."""
    from artefacts import engine_page, nomenclature  # noqa: PLC0415  (imports the whole core)

    return {"engine page": digest(engine_page.page()), "nomenclature": digest(nomenclature.page())}


def engine_outputs() -> Digests:
    return files(ROOT / "docs" / "engine.md", ROOT / "docs" / "nomenclature.md")


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
        "worked requests": chosen([files(*bodies)]),
        **fit_outputs(),
    }


def client_inputs() -> Digests:
    code = sources().digest_from(["artefacts.client_types"])
    return {"code of the service": answer_inputs()["code of the service"], "code of the types": code}


def examples_inputs() -> Digests:
    return {**answer_inputs(), "code of the examples": sources().digest_from(["artefacts.examples"])}


def documents_inputs() -> Digests:
    modules = [f"artefacts.{name}" for name in ("documents", "walk", "decisions")]
    return {
        **answer_inputs(),
        "code of the documents": sources().digest_from(modules),
        "what the documents ask": digest("".join(asks(path) for path in written_by_hand())),
        **files(ROOT / "artefacts" / "decisions.json"),
    }


def documents_outputs() -> Digests:
    """The answers that pages show, without their prose."""
    parts = {path.relative_to(ROOT).as_posix(): shown(path) for path in written_by_hand()}
    pages = files(ROOT / "docs" / "walk.md", ROOT / "docs" / "decisions.md")
    return {**{f"{name}, answers": digest(text) for name, text in parts.items() if text}, **pages}


PARTS = (
    Part("factors", "artefacts.fit", fit_inputs, fit_outputs),
    Part("accuracy", "artefacts.accuracy_page", accuracy_inputs, accuracy_outputs),
    Part("engine", "artefacts.engine_page", engine_inputs, engine_outputs),
    Part("client", "artefacts.client_types", client_inputs, lambda: files(ROOT / "headroom_client" / "answers.py")),
    Part(
        "examples",
        "artefacts.examples",
        examples_inputs,
        lambda: files(ROOT / "app" / "api" / "examples" / "schemas.json"),
    ),
    Part("documents", "artefacts.documents", documents_inputs, documents_outputs),
)


def stamped() -> dict[str, dict[str, Digests]]:
    found: dict[str, dict[str, Digests]] = json.loads(STAMP.read_text()) if STAMP.exists() else {}
    return found


def stamp_of(part: Part) -> dict[str, Digests]:
    """The current digests of a part."""
    return {"made_from": part.inputs(), "made": part.outputs()}


def stale(part: Part) -> list[str]:
    """Names of inputs and outputs that differ from a part's stamp."""
    said, now = stamped().get(part.name, {}), stamp_of(part)
    return [
        name
        for side in ("made_from", "made")
        for name in sorted({**said.get(side, {}), **now[side]})
        if said.get(side, {}).get(name) != now[side].get(name)
    ]


def keep(part: Part, **further: Digests) -> None:
    """Stamps a part with its current digests; its output may be code that other parts depend on."""
    sources.cache_clear()
    known = {each.name for each in PARTS}
    found = {name: said for name, said in stamped().items() if name in known}
    found[part.name] = stamp_of(part) | further
    STAMP.write_text(json.dumps(found, indent=1) + "\n")
