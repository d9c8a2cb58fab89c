"""Fenced code blocks of the documents: finds them, classifies them and replaces their text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from artefacts.service import ROOT

GENERATED = ("accuracy.md", "decisions.md", "deployed.md", "engine.md", "held.md", "nomenclature.md")
FENCE = re.compile(r"^```(\w*)[ ]?(.*)\n((?:.*\n)*?)```$", flags=re.MULTILINE)
NOT_RUN = "not run"
# Run by `make test-clients`: a program that uses a generated client, or the commands that generate it.
GENERATED_CLIENT = "generated client"
SHELL, PYTHON, JSON, OUTPUT, TYPESCRIPT = "sh", "python", "json", "text", "ts"
POST, ANSWER, TRAFFIC = "POST ", "answer", "traffic"  # info strings of JSON: a request, its answer, a part of a request


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: language, info string after the language, text, and position in the document."""

    language: str
    info: str
    text: str
    start: int
    end: int
    follows: bool  # only blank lines separate it from the previous block

    @property
    def is_runnable(self) -> bool:
        return self.language in (SHELL, PYTHON) and not self.info.startswith((NOT_RUN, GENERATED_CLIENT))


def document_paths() -> list[Path]:
    """README and every page under docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def written_by_hand() -> list[Path]:
    return [path for path in document_paths() if path.name not in GENERATED]


def fenced_blocks(text: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    found: list[Block] = []
    for each in FENCE.finditer(text):
        before = text[found[-1].end : each.start()].removeprefix("```") if found else "prose"
        found.append(Block(each[1], each[2], each[3], each.start(3), each.end(3), not before.strip()))
    return found


def output_blocks(fenced: list[Block]) -> dict[int, int]:
    """For each block that shows an output, by number, the number of the block that produces it."""
    return {
        i: i - 1
        for i, block in enumerate(fenced)
        if i and block.language == OUTPUT and block.follows and fenced[i - 1].is_runnable
    }


def request_path(block: Block) -> str:
    return block.info.removeprefix(POST)


def shown_answers(path: Path) -> str:
    """Answers and outputs that a document shows, without its prose."""
    fenced = fenced_blocks(path.read_text())
    answers = [block.text for block in fenced if block.language == JSON and block.info == ANSWER]
    return "".join([*answers, *(fenced[i].text for i in output_blocks(fenced))])


def asked_text(path: Path) -> str:
    """Commands and requests in a document."""
    return "".join(b.info + b.text for b in fenced_blocks(path.read_text()) if b.is_runnable or b.info.startswith(POST))


def replace_blocks(text: str, fenced: list[Block], fresh: Mapping[int, str]) -> str:
    """A document with new text in some of its blocks."""
    for i in sorted(fresh, reverse=True):
        text = text[: fenced[i].start] + fresh[i] + text[fenced[i].end :]
    return text
