"""`make readme`: fills README's worked example with what the service answers now, in the shape that stands there."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from app.config import Settings
from app.main import create_app
from tests.conftest import prepare

README = Path(__file__).parents[1] / "README.md"
WIDTH = 118


def refilled(shape: Any, real: Any) -> Any:
    """The real values under the keys of `shape`; lists as long as theirs, or whole where they held plain rows."""
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


def main() -> None:
    text = README.read_text()
    request, shape = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        url = prepare(f"sqlite:///{folder}/readme.sqlite3")
        with TestClient(create_app(Settings(database_url=url))) as client:
            answer = client.post("/recommend", json=json.loads(request)).json()
    example = {
        k: (answer[k] if k in ("warnings", "rejected_by_code", "sensitivity") else refilled(v, answer[k]))
        for k, v in json.loads(shape).items()
    }
    example["recommendations"][0]["explanation"] = [
        {"text": r["text"]} for r in answer["recommendations"][0]["explanation"]
    ]
    README.write_text(text.replace(shape, formatted(example) + "\n"))


if __name__ == "__main__":
    main()
