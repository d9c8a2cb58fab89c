"""`python -m artefacts.changelog VERSION`: moves the fragments of changelog.d into CHANGELOG.md under that version."""

from __future__ import annotations

import re
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
WIDTH = 120


def release_section(version: str, day: date, fragments: list[Path]) -> str:
    """The section of a release: the sentences of its fragments, grouped by kind."""
    parts = [f"## [{version}] - {day.isoformat()}\n"]
    for kind in KINDS:
        sentences = [" ".join(f.read_text().split()) for f in fragments if f.name.endswith(f".{kind}.md")]
        lines = [fill(s, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) for s in sentences]
        if lines:
            parts.append(f"### {kind.capitalize()}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def release_changes(version: str, day: date, root: Path = ROOT) -> None:
    """Adds a release to CHANGELOG.md and deletes its fragments. Raises ValueError if there is nothing to release."""
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text()
    fragments = sorted(path for path in (root / "changelog.d").glob("*.md") if path.name != "README.md")
    unknown = [f.name for f in fragments if f.name.split(".")[-2] not in KINDS]
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"A version has three numbers, such as 0.3.0, not {version!r}.")
    if unknown:
        raise ValueError(f"Unknown kind: {', '.join(unknown)}. Known kinds: {', '.join(KINDS)}.")
    if not fragments or f"## [{version}]" in text:
        raise ValueError(f"changelog.d has no fragments, or CHANGELOG.md already has {version}.")
    intro, heading, releases = text.partition("\n## [")
    changelog.write_text(f"{intro}\n{release_section(version, day, fragments)}{heading}{releases}")
    for fragment in fragments:
        fragment.unlink()


if __name__ == "__main__":
    try:
        release_changes(" ".join(sys.argv[1:]), datetime.now(UTC).date())
    except ValueError as error:
        sys.exit(str(error))
