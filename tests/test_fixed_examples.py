"""The examples of property tests are the same in whatever order the tests run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings, strategies

NUMBERS = strategies.lists(strategies.integers() | strategies.floats(allow_nan=False), min_size=5)


def drawn() -> list[list[float]]:
    """The examples that a property is tried with."""
    found: list[list[float]] = []

    @given(NUMBERS)
    def keep(numbers: list[float]) -> None:
        found.append(numbers)

    keep()
    return found


@pytest.mark.skipif(settings.get_current_profile_name() != "fixed", reason="exploring draws new examples")
def test_examples_do_not_depend_on_the_modules_that_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    (tmp_path / "full_of_numbers.py").write_text(f"NUMBERS = {list(range(90_001, 91_000))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    loaded: ModuleType = importlib.import_module("full_of_numbers")
    try:
        assert loaded.NUMBERS
        assert drawn() == before
    finally:
        del sys.modules["full_of_numbers"]
