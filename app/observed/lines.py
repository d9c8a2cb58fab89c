"""Split a pasted log into lines: remove color codes, treat each state of a progress bar as a line, cut long lines."""

from __future__ import annotations

import re

ANSI_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BREAK = re.compile(r"[\r\n]+")
MAX_LINE_CHARACTERS = 2000


def split_lines(text: str) -> list[str]:
    """Non-empty lines of a text."""
    return [line for raw in BREAK.split(ANSI_COLOR.sub("", text)) if (line := raw[:MAX_LINE_CHARACTERS].strip())]
