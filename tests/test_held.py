"""docs/held.md shows the figures of the last run, none of them older than the release before, and no broken promise."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artefacts.held import PAGE, SECTIONS, page, read_results

ROOT = Path(__file__).parents[1]
RESULTS = read_results()
PROMISES: dict[str, Callable[[Any], bool]] = {
    # Seconds depend on the machine: this is 2 s where the most expensive worked question takes 0.22 s.
    "dearest": lambda found: (
        found["search"] != {}
        and all(each["cpu_s"] < 9 * max(found["worked"].values()) for each in found["search"].values())
    ),
    "sockets": lambda found: (
        all(each["failed"] == {} for each in found.values())
        and all(found["8 of the most expensive"][f"{kind}_cpu_ms"]["p99"] < 100 for kind in ("livez", "known"))
    ),
    "overload": lambda found: found["rejected"] == found["rejected_with_retry_after"] and not found["other_statuses"],
    "stopping": lambda found: found["lost"] == 0 and set(found["exit_statuses"]) == {0},
    "kills": lambda found: (
        found["in_two_versions"] == 0 and set(found["again"]) <= {"unchanged", "not received, complete"}
    ),
    "frozen": lambda found: (
        found["kinds"] != {} and all(each["back_s"] is not None for each in found["kinds"].values())
    ),
    "mutated": lambda found: (
        {*found} == {"sqlite", "postgresql"} and all(each["broken"] == [] for each in found.values())
    ),
}


def test_the_page_shows_the_results_of_the_command() -> None:
    assert PAGE.read_text() == page(RESULTS)
    assert set(RESULTS) == set(SECTIONS) == set(PROMISES)


@pytest.mark.parametrize("name", RESULTS)
def test_figures_are_of_this_release_or_the_one_before_and_keep_their_promise(name: str) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    released = re.findall(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    recent = [version, *(each for each in released if each != version)][:2]
    assert RESULTS[name]["release"] in recent, f"run python -m benchmarks.held {name}"
    assert PROMISES[name](RESULTS[name]["figures"])
