"""Names of flags and keys that a launcher hands to its tool."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from app.export.handoff.option import Option
from app.export.handoff.targets import build_files


def emitted(option: Option) -> set[str]:
    """Flags, key=value words of the command, and keys of the configuration files."""
    files = {file.name: file.text for file in build_files(option, "shell", None).files}
    words = shlex.split(files["train.sh"].split("train=(\n", 1)[1].split("\n)\n", 1)[0])
    flags = {word for word in words if word.startswith("--") and word != "--"}
    pairs = {word.split("=")[0] for word in words if "=" in word and not word.startswith("-")}
    configurations = (text for name, text in files.items() if name.endswith(".yaml"))
    return flags | pairs | {key for text in configurations for key in _keys(yaml.safe_load(text))}


def _keys(document: Any) -> Iterator[str]:
    """Keys of a document at all depths."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield str(key)
            yield from _keys(value)
    elif isinstance(document, list):
        for item in document:
            yield from _keys(item)
