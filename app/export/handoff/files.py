"""Files of a deployment package, with YAML quoting that every parser reads as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

SHELL, YAML, JSON, TEXT = "application/x-sh", "application/yaml", "application/json", "text/plain"
MAX_LABEL_LENGTH = 40  # of the 63 characters of a DNS label; the rest is reserved for suffixes
PLAIN_TEXT = re.compile(r"[A-Za-z/_][\w./:@=+,-]*", re.ASCII)
# Words that some YAML parsers do not read as text.
RESERVED_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))


@dataclass(frozen=True, slots=True)
class File:
    """A file of a deployment package."""

    name: str  # file name without a directory
    media_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Handoff:
    """Deployment package: the files of a target, and notes about the remaining manual steps."""

    target: str
    rank: int
    files: tuple[File, ...]
    notes: tuple[str, ...]


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """YAML dumper that quotes text unless every parser reads it as text, and writes several lines as a block."""

    ignore_aliases = staticmethod(lambda _: True)  # repeated values are written out, not aliased


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = PLAIN_TEXT.fullmatch(text) is not None and text.lower() not in RESERVED_WORDS and not text.endswith(":")
    style = "|" if "\n" in text else None if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_text(*documents: Mapping[str, Any]) -> str:
    """YAML documents of one file, with their keys in order."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))


def add_header(header: Sequence[str], text: str) -> str:
    """Text after a header of comment lines, for shell and YAML."""
    return "".join(f"# {line}\n" for line in header) + text


def build_script(header: Sequence[str], *lines: str) -> str:
    """Bash script that stops at the first failure."""
    return "#!/usr/bin/env bash\n" + add_header(header, "\n".join(("set -euo pipefail", *lines)) + "\n")


def dns_label(name: str, *behind: str) -> str:
    """A name as a DNS label, with suffixes that make it unique.

    Check:
        >>> dns_label("meta-llama/Llama-3.1-70B", "prefill"), dns_label("1e3"), dns_label("模型")
        ('llama-3-1-70b-prefill', 'm-1e3', 'model')
    """
    base = re.sub(r"[^a-z0-9]+", "-", name.rsplit("/", 1)[-1].lower()).strip("-") or "model"
    base = base if base[0].isalpha() else f"m-{base}"
    return "-".join((base[:MAX_LABEL_LENGTH].rstrip("-"), *behind))
