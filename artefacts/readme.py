"""README's worked answer, refilled with what the service answers now in the shape that stands there; and the walk."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from artefacts import walk
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


def write() -> None:
    """README.md and docs/walk.md."""
    text = README.read_text()
    request, shape = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    with asked() as client:
        answer = client.post("/recommend", json=json.loads(request)).json()
        walk.write(client)
    README.write_text(text.replace(shape, formatted(refilled(json.loads(shape), answer)) + "\n"))
