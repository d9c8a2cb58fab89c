"""Splits pasted text into lines, and finds the lines that patterns match in time proportional to the text.

Each pattern is compared only with the lines that contain a text which its matches need, so hundreds of patterns take
little more time than a few.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import Any

from app.observed.figures import UnreadableText
from app.work import check_each

parser, codes = import_module("re._parser"), import_module("re._constants")  # no public module parses patterns

ANSI_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BREAK = re.compile(r"[\r\n]+")
MAX_LINE_CHARACTERS = 2000
MAX_LINES = 40_000  # of a log


def split_lines(text: str) -> list[str]:
    """Non-empty lines of a text, each cut to MAX_LINE_CHARACTERS. Raises UnreadableText for more than MAX_LINES."""
    every = BREAK.split(ANSI_COLOR.sub("", text), MAX_LINES + 1)  # the last part is what follows the limit, if anything
    if len(every) > MAX_LINES + 1:
        raise UnreadableText(f"The text has more than {MAX_LINES:,} lines. Send its last {MAX_LINES:,} lines.")
    return [line for raw in check_each(every) if (line := raw[:MAX_LINE_CHARACTERS].strip())]


class LineIndex:
    """Lines of a text, and the lines that match a pattern. The text is searched for each pattern once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._text = "\n".join(lines)
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]
        self._known: dict[re.Pattern[str], dict[int, re.Match[str]]] = {}

    def matches(self, pattern: re.Pattern[str]) -> dict[int, re.Match[str]]:
        """The first match of a pattern in each line that has one, by the number of the line from 0."""
        if pattern not in self._known:
            found = ((number, pattern.search(self.lines[number])) for number in check_each(self.candidates(pattern)))
            self._known[pattern] = {number: match for number, match in found if match is not None}
        return self._known[pattern]

    def candidates(self, pattern: re.Pattern[str]) -> Sequence[int]:
        """Numbers of the lines that can match a pattern, in their order."""
        literals = required_literals(pattern)
        if "" in literals:
            return range(len(self.lines))
        return sorted({number for literal in literals for number in self._containing(literal)})

    def _containing(self, literal: str) -> Iterator[int]:
        at = self._text.find(literal)
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            yield number
            at = self._text.find(literal, self._starts[number + 1])


@cache
def required_literals(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Texts of which each match of a pattern contains at least one; one of them is empty if nothing is required.

    Check:
        >>> required_literals(re.compile(r"(?:Waiting|Pending): *[0-9]+ reqs"))
        ('Waiting', 'Pending')
    """
    if pattern.flags & re.IGNORECASE:
        return ("",)
    return _longest_literals(parser.parse(pattern.pattern, pattern.flags))


def _longest_literals(nodes: Iterable[tuple[Any, Any]]) -> tuple[str, ...]:
    """Of the parts of a sequence that each match contains, the one whose shortest alternative is the longest."""
    parts: list[tuple[str, ...]] = []
    literal = ""
    for code, argument in nodes:
        if code is codes.LITERAL:
            literal += chr(argument)
            continue
        parts.append((literal,))
        literal = ""
        if code is codes.SUBPATTERN and not argument[1] & re.IGNORECASE:
            parts.append(_longest_literals(argument[3]))
        elif code is codes.MAX_REPEAT and argument[0] > 0:
            parts.append(_longest_literals(argument[2]))
        elif code is codes.BRANCH:
            parts.append(tuple(text for branch in argument[1] for text in _longest_literals(branch)))
    return max([*parts, (literal,)], key=lambda texts: min(map(len, texts)))
