"""Names of flags and keys that a launcher hands to its tool, and checks of scripts."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from app.export.handoff.option import File, Handoff

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
INSTALLED = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
SHELLCHECK = shutil.which("shellcheck", path=INSTALLED) or "shellcheck"


def check_scripts(folder: Path, *texts: str) -> None:
    """Fails if bash cannot read a script, or if shellcheck warns of it."""
    for number, text in enumerate(texts):
        (folder / f"{number}.sh").write_text(text)
    paths = [str(folder / f"{number}.sh") for number in range(len(texts))]
    subprocess.run(["bash", "-c", 'for path; do bash -n "$path" || exit; done', "each", *paths], check=True)
    done = subprocess.run([SHELLCHECK, "-S", "warning", *paths], capture_output=True, text=True, check=False)
    assert not done.stdout + done.stderr


def emitted(made: Handoff) -> set[str]:
    """Flags and key=value words of the command of a run, and keys of its configuration files."""
    return {name for name, _ in handed_values(made)}


def handed_values(made: Handoff) -> Iterator[tuple[str, str]]:
    """Flags and keys that the command of a run and its configuration files set, each with its value."""
    files = {file.name: file.text for file in made.files}
    words = shlex.split(files["train.sh"].split("train=(\n", 1)[1].split("\n)\n", 1)[0])
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, is_pair, value = word.partition("=")
        if is_pair or (word.startswith("--") and word != "--"):
            yield name, value if is_pair else following
    for text in (text for name, text in files.items() if name.endswith(".yaml")):
        yield from _pairs(yaml.load(text, LOADER))


def _pairs(document: Any) -> Iterator[tuple[str, str]]:
    """Keys of a document at all depths, with their values as text."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield str(key), str(value)
            yield from _pairs(value)
    elif isinstance(document, list):
        for item in document:
            yield from _pairs(item)


HEREDOC = re.compile(r"^cat > \S+ <<'EOF'\n.*?^EOF\n", re.MULTILINE | re.DOTALL)
TRAIN = re.compile(r"^train=\(\n.*?^\)\n", re.MULTILINE | re.DOTALL)
SEPARATORS = {"&&", "||", "|", ";", ";;", "&", "(", ")", "{", "}"}
# Flags by the words that start a tool.
Tools = Mapping[tuple[str, ...], frozenset[str]]


def unknown_flags(file: File, tools: Tools) -> Iterator[str]:
    """Flags in a file that its tool does not have. The words of a training command are left to `emitted`."""
    if file.name.endswith((".sh", ".sbatch")):
        yield from unknown_in_shell(file.text, tools)
    elif file.name.endswith((".yaml", ".yml")):
        for document in yaml.load_all(file.text, LOADER):
            yield from _unknown_in_document(document, tools)


def _unknown_in_document(document: Any, tools: Tools) -> Iterator[str]:
    """Unknown flags of the commands and scripts in a document."""
    if isinstance(document, Mapping):
        words = [*document.get("command", []), *document.get("args", [])] if "image" in document else []
        starts = ["vllm", "serve"] if document.get("modelCommand") == "vllmServe" else []
        yield from _unknown_in_words([*starts, *words], tools)
        for key, value in document.items():
            if str(key).endswith(".sh") or key in ("run", "entrypoint"):
                yield from unknown_in_shell(value if isinstance(value, str) else "", tools)
            elif not str(key).endswith((".py", ".yaml", ".json")):
                yield from _unknown_in_document(value, tools)
    elif isinstance(document, list):
        for item in document:
            texts = isinstance(item, str) and " " in item
            yield from unknown_in_shell(item, tools) if texts else _unknown_in_document(item, tools)


def unknown_in_shell(text: str, tools: Tools) -> Iterator[str]:
    """Unknown flags of the commands in a script."""
    text = TRAIN.sub("", HEREDOC.sub("", text)).replace("\\\n", " ")
    for line in text.splitlines():
        if " -" in line:
            yield from _unknown_in_words(split_line(line), tools)


@functools.cache
def split_line(line: str) -> list[str]:
    """Words and separators of a line of a script; empty for a comment."""
    if line.startswith("#SBATCH"):
        return ["sbatch", *shlex.split(line)[1:]]
    if line.lstrip().startswith("#"):
        return []
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.commenters, words.whitespace_split = "", True
    return [*words]


def _unknown_in_words(words: list[str], tools: Tools) -> Iterator[str]:
    """Unknown flags of one line of commands. A long flag before any tool is unknown."""
    tool: tuple[str, ...] = ()
    firsts = {each[0] for each in tools}
    for place, path in enumerate(words):
        before, word = words[place - 1] if place else "", path.rsplit("/", 1)[-1]
        if word in firsts and not re.fullmatch(r"--?[A-Za-z][^=]*", before):  # a value of a flag starts nothing
            started = [each for each in tools if (word, *words[place + 1 : place + len(each)]) == each]
            tool = max(started, key=len, default=tool)
        elif path in SEPARATORS:
            tool = ()
        flag, form = path.split("=")[0], r"--?[A-Za-z]" if tool else r"--[A-Za-z]"
        if before == "-c" and "python" not in words[place - 2]:
            yield from unknown_in_shell(path, tools)
        elif before != "==" and re.match(form, flag) and flag not in tools.get(tool, ()):
            yield f"{' '.join(tool)} {flag}"
