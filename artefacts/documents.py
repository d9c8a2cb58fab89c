"""Refreshes what documents show of answers: command outputs, example answers, quoted median errors, and generated
pages.

An example answer keeps the keys that the document shows.
"""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.testclient import TestClient

from app.catalog.queries import calibration_notes
from artefacts import decisions
from artefacts.blocks import ANSWER, JSON, fenced_blocks, output_blocks, replace_blocks, request_path, written_by_hand
from artefacts.running import run_blocks, serve_app
from artefacts.service import ROOT, service_client

LIMITS = ROOT / "docs" / "limits.md"
WIDTH = 118


def refill_shape(shape: Any, real: Any) -> Any:
    """The current values under the keys of `shape`; lists keep their length."""
    if isinstance(shape, dict) and isinstance(real, dict):
        known = {k: refill_shape(shape[k], real[k]) for k in shape if k in real}
        return known or real
    if isinstance(shape, list) and isinstance(real, list) and shape:
        return [refill_shape(shape[min(i, len(shape) - 1)], value) for i, value in enumerate(real[: len(shape)])]
    return real


def format_json(value: Any, indent: int = 0) -> str:
    """JSON with short values on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= WIDTH or not isinstance(value, dict | list):
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        rows = [f"{pad}{json.dumps(k)}: {format_json(v, indent + 2)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + format_json(v, indent + 2) for v in value) + "\n" + " " * indent + "]"


QUOTED = ("throughput", "tpot", "ttft", "single_stream", "prefill", "training", "training_samples", "training_memory")


def update_quoted_errors(text: str) -> str:
    """The text with current median errors of unseen sources and (in brackets) in sample, in the order of QUOTED."""
    headline = iter([calibration_notes()["headline"][quantity] for quantity in QUOTED])

    def current_figures(said: re.Match[str]) -> str:
        figures = next(headline)
        return f"{100 * figures['held_out']:.0f}{said[1]}{100 * figures['in_sample']:.0f}{said[2]}"

    return re.sub(r"\d+(\s+%\s+\()\d+(\s+%\))", current_figures, text)


def refresh_document(text: str, client: TestClient, url: str) -> str:
    """A document with current outputs and answers."""
    fenced = fenced_blocks(text)
    fresh: dict[int, str] = {}
    if due := output_blocks(fenced):
        said = run_blocks(fenced, url)
        fresh |= {i: said[of] for i, of in due.items()}
    for i, block in enumerate(fenced):
        if block.language == JSON and block.info == ANSWER:
            answer = client.post(request_path(fenced[i - 1]), json=json.loads(fenced[i - 1].text)).json()
            fresh[i] = format_json(refill_shape(json.loads(block.text), answer)) + "\n"
    return replace_blocks(text, fenced, fresh)


def write() -> None:
    """Updates the manually written pages and docs/decisions.md."""
    with service_client() as client, serve_app(client.app) as url:
        decisions.write_decisions(client)
        for path in written_by_hand():
            path.write_text(refresh_document(path.read_text(), client, url))
    LIMITS.write_text(update_quoted_errors(LIMITS.read_text()))
