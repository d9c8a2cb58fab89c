"""Names of flags and keys that a launcher hands to its tool, and checks of scripts."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from app.export.handoff.option import Option
from app.export.handoff.targets import build_files

INSTALLED = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
SHELLCHECK = shutil.which("shellcheck", path=INSTALLED) or "shellcheck"


def check_scripts(folder: Path, *texts: str) -> None:
    """Fails if bash cannot read a script, or if shellcheck warns of it."""
    for number, text in enumerate(texts):
        (folder / f"{number}.sh").write_text(text)
    paths = [str(folder / f"{number}.sh") for number in range(len(texts))]
    for path in paths:
        subprocess.run(["bash", "-n", path], check=True)
    done = subprocess.run([SHELLCHECK, "-S", "warning", *paths], capture_output=True, text=True, check=False)
    assert not done.stdout + done.stderr


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
