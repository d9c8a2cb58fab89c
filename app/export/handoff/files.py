"""What is handed off: files of text, written so that no name is taken for anything else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

SHELL, YAML, JSON, TEXT = "application/x-sh", "application/yaml", "application/json", "text/plain"
LONGEST_LABEL = 40  # of the 63 characters that a DNS label may have: the rest is left to what is put behind it
WORD = re.compile(r"[A-Za-z/_][\w./:@=+,-]*", re.ASCII)
# Words that one YAML reader or another takes for something else than text.
TAKEN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))


@dataclass(frozen=True, slots=True)
class File:
    """A file by its name, without a directory."""

    name: str
    media_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Handoff:
    """The files of a target, and what whoever starts them has to know or to do."""

    target: str
    rank: int
    files: tuple[File, ...]
    notes: tuple[str, ...]


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # it has no types
    """Text is quoted unless every reader takes it for text; several lines stand as they are."""

    ignore_aliases = staticmethod(lambda _: True)  # what stands in several places is written out in each


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = WORD.fullmatch(text) is not None and text.lower() not in TAKEN and not text.endswith(":")
    style = "|" if "\n" in text else None if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(*documents: Mapping[str, Any]) -> str:
    """Documents of one file, in the order of their keys."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))


def commented(header: Sequence[str], text: str) -> str:
    """A text behind its header, in comments of shells and YAML."""
    return "".join(f"# {line}\n" for line in header) + text


def script(header: Sequence[str], *lines: str) -> str:
    """A script that stops at the first failure."""
    return "#!/usr/bin/env bash\n" + commented(header, "\n".join(("set -euo pipefail", *lines)) + "\n")


def label(name: str, *behind: str) -> str:
    """A name as DNS labels are written, with what it is told apart by.

    Check:
        >>> label("meta-llama/Llama-3.1-70B", "prefill"), label("1e3"), label("模型")
        ('llama-3-1-70b-prefill', 'm-1e3', 'model')
    """
    base = re.sub(r"[^a-z0-9]+", "-", name.rsplit("/", 1)[-1].lower()).strip("-") or "model"
    base = base if base[0].isalpha() else f"m-{base}"
    return "-".join((base[:LONGEST_LABEL].rstrip("-"), *behind))
