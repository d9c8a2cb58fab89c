"""Fragments of changelog.d become a release of CHANGELOG.md, once."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from artefacts.changelog import KINDS, ROOT, release_changes

DAY = date(2026, 12, 1)
BEFORE = "# Changelog\n\nAn introduction.\n\n## [0.2.0] - 2026-11-25\n\n### Added\n\n- Something old.\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a changelog and three fragments."""
    (tmp_path / "CHANGELOG.md").write_text(BEFORE)
    (tmp_path / "changelog.d").mkdir()
    for name, text in (
        ("README.md", "Not a fragment."),
        ("b.fixed.md", "A trace no longer\nrepeats lines.\n"),
        ("a.fixed.md", "Costs agree.\n"),
        ("c.added.md", "Something new.\n"),
    ):
        (tmp_path / "changelog.d" / name).write_text(text)
    return tmp_path


def test_fragments_move_into_the_changelog_grouped_and_before_older_releases(repository: Path) -> None:
    release_changes("0.3.0", DAY, repository)
    assert (repository / "CHANGELOG.md").read_text() == (
        "# Changelog\n\nAn introduction.\n\n"
        "## [0.3.0] - 2026-12-01\n\n### Added\n\n- Something new.\n\n"
        "### Fixed\n\n- Costs agree.\n- A trace no longer repeats lines.\n\n"
        "## [0.2.0] - 2026-11-25\n\n### Added\n\n- Something old.\n"
    )
    assert [path.name for path in (repository / "changelog.d").iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("pyproject.toml", r'^version = "(.+)"$'),
        ("headroom_client/pyproject.toml", r'^version = "(.+)"$'),
        ("app/main.py", r'^ +version="(.+)",$'),
        ("deploy/kubernetes/kustomization.yaml", r'newTag: "(.+?)"'),
        ("docs/operating.md", r'headroom_build_info\{version="(.+)"\}'),
    ],
)
def test_every_file_states_the_version_of_the_newest_release(path: str, pattern: str) -> None:
    newest = re.findall(r"^## \[(.+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[0]
    assert re.findall(pattern, (ROOT / path).read_text(), flags=re.MULTILINE)[:1] == [newest]


@pytest.mark.parametrize(
    ("version", "name", "message"),
    [
        ("", "d.fixed.md", "three numbers"),
        ("0.2.0", "d.fixed.md", "already has"),
        ("0.3.0", "d.news.md", "Unknown kind: d.news.md"),
        ("0.3.0", "news.md", "Unknown kind: news.md"),
    ],
)
def test_a_release_that_cannot_be_written_changes_nothing(
    repository: Path, version: str, name: str, message: str
) -> None:
    (repository / "changelog.d" / name).write_text("A sentence.")
    with pytest.raises(ValueError, match=message):
        release_changes(version, DAY, repository)
    assert (repository / "CHANGELOG.md").read_text() == BEFORE
    assert len(list((repository / "changelog.d").iterdir())) == 5


def test_without_fragments_nothing_is_released(repository: Path) -> None:
    release_changes("0.3.0", DAY, repository)
    with pytest.raises(ValueError, match="no fragments"):
        release_changes("0.4.0", DAY, repository)


def test_waiting_fragments_have_a_known_kind_and_one_sentence() -> None:
    for path in (ROOT / "changelog.d").glob("*.*.md"):
        assert path.name.split(".")[-2] in KINDS, path.name
        assert re.fullmatch(r"\S.*\.\n?", path.read_text(), flags=re.DOTALL), path.name
