"""The generated files are the ones that the current tree generates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from artefacts.parts import PARTS, Part, changed_digests

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_generated_files_are_of_this_tree(part: Part) -> None:
    changed = changed_digests(part)
    assert not changed, f"changed since: {', '.join(changed)}. Run: make artefacts PART={part.name}"


def test_the_walk_leads_to_files_and_tests_that_are_there() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \| `([^`]+)` \| `(\w+)` in `([\w/.-]+)` \|$", walk(), re.MULTILINE)
    assert len(rows) == 10
    for name, path, test, line, request in rows:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), name
        file, _, function = test.partition("::")
        where = (ROOT / file.partition(" ")[0]).read_text()
        assert not function or f"def {function}(" in where, test
        assert line == name
        assert (ROOT / request).exists()


def walk() -> str:
    return (ROOT / "docs" / "walk.md").read_text()
