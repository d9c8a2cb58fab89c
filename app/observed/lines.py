"""Split a pasted log into lines: remove color codes, treat each state of a progress bar as a line, cut long lines."""

from __future__ import annotations

import re

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BREAK = re.compile(r"[\r\n]+")
LONGEST = 2000


def lines_of(text: str) -> list[str]:
    """Non-empty lines of a text."""
    return [line for raw in BREAK.split(COLOUR.sub("", text)) if (line := raw[:LONGEST].strip())]
