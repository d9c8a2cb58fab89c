"""Counts the reference configurations again, on models that the transformers library instantiates without weights.

`make instantiate` runs this where the extra of that name is installed; the tests compare with what it wrote.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("instantiated.jsonl")


def instantiated(config: dict[str, Any]) -> int:
    """Parameters of a model of this configuration."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    rest = dict(config)
    architecture = getattr(transformers, rest.pop("architectures")[0])
    settings = transformers.AutoConfig.for_model(rest.pop("model_type"), **rest)
    with torch.device("meta"):
        network = architecture._from_config(settings)
    network.tie_weights()
    return sum({id(p): p.numel() for p in network.parameters()}.values())


def main() -> None:
    """Rewrite the file; whatever changed is named, and ends the run as a failure."""
    before = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    now = [{**case, "parameters": instantiated(json.loads(json.dumps(case["config"])))} for case in before]
    RECORDED.write_text("".join(json.dumps(case, separators=(",", ":")) + "\n" for case in now))
    changed = [
        f"{old['config']['model_type']}: {old['parameters']} recorded, {new['parameters']} instantiated"
        for old, new in zip(before, now, strict=True)
        if old != new
    ]
    if changed:
        sys.exit("\n".join(changed))


if __name__ == "__main__":
    main()
