"""README's worked answer, refilled with what the service answers now in the shape that stands there; the median errors
it quotes; the walk; and the questions of buyers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from app.catalog.queries import calibration_notes
from artefacts import decisions, walk
from artefacts.service import asked

README = Path(__file__).resolve().parents[1] / "README.md"
WIDTH = 118


def refilled(shape: Any, real: Any) -> Any:
    """The real values under the keys of `shape`; lists as long as theirs."""
    if isinstance(shape, dict) and isinstance(real, dict):
        known = {k: refilled(shape[k], real[k]) for k in shape if k in real}
        return known or real
    if isinstance(shape, list) and isinstance(real, list):
        return [refilled(shape[min(i, len(shape) - 1)], value) for i, value in enumerate(real[: max(1, len(shape))])]
    return real


def formatted(value: Any, indent: int = 0) -> str:
    """JSON with short things on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= WIDTH or not isinstance(value, dict | list):
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        rows = [f"{pad}{json.dumps(k)}: {formatted(v, indent + 2)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + formatted(v, indent + 2) for v in value) + "\n" + " " * indent + "]"


QUOTED = ("throughput", "tpot", "ttft", "single_stream", "prefill", "training", "training_samples", "training_memory")


def errors_quoted(text: str) -> str:
    """The text with today's median errors, of unseen sources and (in brackets) in sample, in the order of QUOTED."""
    headline = iter([calibration_notes()["headline"][quantity] for quantity in QUOTED])

    def today(said: re.Match[str]) -> str:
        figures = next(headline)
        return f"{100 * figures['held_out']:.0f}{said[1]}{100 * figures['in_sample']:.0f}{said[2]}"

    return re.sub(r"\d+(\s+%\s+\()\d+(\s+%\))", today, text)


def write() -> None:
    """README.md, docs/walk.md and docs/decisions.md."""
    text = README.read_text()
    request, shape = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    with asked() as client:
        answer = client.post("/recommend", json=json.loads(request)).json()
        walk.write(client)
        decisions.write(client)
    refreshed = text.replace(shape, formatted(refilled(json.loads(shape), answer)) + "\n")
    README.write_text(errors_quoted(refreshed))
