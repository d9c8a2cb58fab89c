"""Fenced blocks of the documents: which there are, what each is, and what stands in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from artefacts.service import ROOT

GENERATED = ("accuracy.md", "decisions.md", "engine.md", "nomenclature.md", "walk.md")
FENCE = re.compile(r"^```(\w*)[ ]?(.*)\n((?:.*\n)*?)```$", flags=re.MULTILINE)
NOT_RUN = "not run"
GENERATED_CLIENT = "generated client"  # what make test-clients runs: a program of one, or the commands that make it
SHELL, PYTHON, JSON, OUTPUT, TYPESCRIPT = "sh", "python", "json", "text", "ts"
POST, ANSWER, TRAFFIC = "POST ", "answer", "traffic"  # what is said beside JSON: a request, its answer, a part of one


@dataclass(frozen=True, slots=True)
class Block:
    """One block: its language, what is said beside that, its text, and where that stands in the document."""

    language: str
    said: str
    text: str
    start: int
    end: int
    follows: bool  # nothing but blank lines between it and the block before

    @property
    def runs(self) -> bool:
        return self.language in (SHELL, PYTHON) and not self.said.startswith((NOT_RUN, GENERATED_CLIENT))


def documents() -> list[Path]:
    """README and every page."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def written_by_hand() -> list[Path]:
    return [path for path in documents() if path.name not in GENERATED]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document, in its order."""
    found: list[Block] = []
    for each in FENCE.finditer(text):
        before = text[found[-1].end : each.start()].removeprefix("```") if found else "prose"
        found.append(Block(each[1], each[2], each[3], each.start(3), each.end(3), not before.strip()))
    return found


def outputs(told: list[Block]) -> dict[int, int]:
    """The blocks that show an output, by number, each with the block that it is the output of."""
    return {
        i: i - 1
        for i, block in enumerate(told)
        if i and block.language == OUTPUT and block.follows and told[i - 1].runs
    }


def posted(block: Block) -> str:
    """Where a block that is a request goes."""
    return block.said.removeprefix(POST)


def shown(path: Path) -> str:
    """What a document shows of answers, not the prose about it."""
    told = blocks(path.read_text())
    answers = [block.text for block in told if block.language == JSON and block.said == ANSWER]
    return "".join([*answers, *(told[i].text for i in outputs(told))])


def asks(path: Path) -> str:
    """What a document asks: its commands and requests."""
    return "".join(b.said + b.text for b in blocks(path.read_text()) if b.runs or b.said.startswith(POST))


def replaced(text: str, told: list[Block], fresh: Mapping[int, str]) -> str:
    """A document with other texts in some of its blocks."""
    for i in sorted(fresh, reverse=True):
        text = text[: told[i].start] + fresh[i] + text[told[i].end :]
    return text
