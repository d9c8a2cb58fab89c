"""Memory recipes of published sources: one record per source or part of one, the most specific last.

The records are read from the sources' own scripts and configurations at the version that was run. Fields that a record
leaves out are those of the framework's own recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.sizing.facts import build_tables
from calibration.training.recipes import Figure, SourceRecipe

UNREAD = "the source's scripts were not read"

SOURCES = build_tables(SourceRecipe, Path(__file__).with_name("sources.toml"), "source")


def recipe_of(row: Mapping[str, Any]) -> SourceRecipe:
    """The record of a row; for an unread source, a record that leaves everything to the framework."""
    found = [r for r in SOURCES if r.applies_to(row)]
    return found[-1] if found else SourceRecipe(row["source_key"], Figure.DRIVER, "", "", open=UNREAD)
