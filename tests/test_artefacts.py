"""What is generated is what the tree as it stands would generate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from artefacts.parts import PARTS, Part, stale
from artefacts.sources import Sources

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_generated_files_are_of_this_tree(part: Part) -> None:
    changed = stale(part)
    assert not changed, f"changed since: {', '.join(changed)}. Run: make artefacts PART={part.name}"


def written(root: Path, **files: str) -> Sources:
    """A repository of one package."""
    for name, text in files.items():
        (root / "app").mkdir(exist_ok=True)
        (root / "app" / f"{name}.py").write_text(text)
    return Sources(root)


FIT = "from app.physics import seconds\n\ndef fit(rows: list) -> float:\n    return sum(seconds(r) for r in rows)\n"
PHYSICS = "LOST = 0.5\n\ndef seconds(row):\n    return row.work / LOST\n\ndef unrelated(row):\n    return row\n"


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("LOST = 0.5", "LOST = 0.6", False),  # a constant of the physics
        ("row.work / LOST", "row.work * LOST", False),
        ("def seconds(row):\n", 'def seconds(row):\n    """Seconds of a row."""\n', True),
        ("def seconds(row):\n", "def seconds(row: object) -> float:  # in seconds\n", True),
        ("return row\n", "return None\n", True),  # what the fit does not reach
    ],
)
def test_a_digest_sees_what_can_change_a_number(tmp_path: Path, before: str, after: str, same: bool) -> None:
    one = written(tmp_path, fit=FIT, physics=PHYSICS).digest(["app.fit"])
    two = written(tmp_path, fit=FIT, physics=PHYSICS.replace(before, after)).digest(["app.fit"])
    assert (one == two) is same


def test_a_definition_may_move_to_another_file(tmp_path: Path) -> None:
    one = written(tmp_path, fit=FIT, physics=PHYSICS).digest(["app.fit"])
    moved = FIT.replace("app.physics", "app.serving")
    assert written(tmp_path, fit=moved, serving=PHYSICS).digest(["app.fit"]) == one


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
