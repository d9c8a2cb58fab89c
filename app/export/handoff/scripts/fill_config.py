"""Prints a YAML configuration with its variables filled: "$NAME" becomes the value of the environment variable NAME."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

# Variables that are numbers or flags; all others are text. An empty one of OPTIONAL is null.
NUMBERS = frozenset(("LEARNING_RATE", "STEPS", "SAVE_STEPS", "LOG_STEPS", "WARMUP_STEPS", "SEED"))
COUNTS = frozenset(("ITERATIONS", "SAVE_ITERATIONS", "LOG_ITERATIONS"))  # micro-batches
FLAGS = frozenset(("AUTO_RESUME",))
OPTIONAL = frozenset(("CHECKPOINT", "ADAPTER", "TEMPLATE"))


def fill(name: str) -> str:
    """A variable as a YAML value. Exponents are written out: YAML parsers read 1e-05 as text."""
    value = os.environ[name]
    if name in FLAGS or (name in OPTIONAL and not value):
        return value or "null"
    if name not in NUMBERS | COUNTS:
        return json.dumps(value)
    try:
        number = float(value)
    except ValueError:
        sys.exit(f"{name} is {value!r}, which is not a number.")
    return str(int(number)) if number.is_integer() else f"{number:.15f}".rstrip("0")


def main() -> None:
    """Prints the file of the first argument."""
    print(re.sub(r'"\$([A-Z_]+)"', lambda found: fill(found[1]), Path(sys.argv[1]).read_text()), end="")


if __name__ == "__main__":
    main()
