"""Memory recipes of published sources: one record per source or part of one, the most specific last, with the kind of
peak that it prints and the unknowns.

The records are read from the sources' own scripts and configurations at the version that was run. Fields that a record
leaves out are those of the framework's own recipe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from app.sizing.facts import build_tables
from app.sizing.hardware.recipes import RecipeSettings


class Figure(StrEnum):
    """The kind of memory peak that a source prints."""

    ALLOCATED = "allocated"  # memory of tensors
    RESERVED = "reserved"  # memory that the framework's allocator reserved
    DRIVER = "driver"  # memory that the device shows as used, including context and communication buffers


@dataclass(frozen=True, slots=True)
class SourceRecipe:
    """Recipe of those rows of a source whose columns match `where` (patterns by column).

    `open` is what affects the peak but is not published. Rows of such a record are compared and not fitted.
    """

    source: str
    figure: Figure
    read_in: str
    as_of: str
    said: RecipeSettings | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    open: str = ""
    lora_targets: str | tuple[str, ...] = "all-linear"
    lora_rank: int = 16
    sequence_parallel: bool | None = None
    may_offload: bool = False  # activations may be offloaded; the source does not state whether the switch was on

    def applies_to(self, row: Mapping[str, Any]) -> bool:
        columns = all(re.search(words, row.get(column) or "") for column, words in self.where.items())
        return row["source_key"] == self.source and columns


UNREAD = "the source's scripts were not read"

SOURCES = build_tables(SourceRecipe, Path(__file__).with_name("sources.toml"), "source")


def recipe_of(row: Mapping[str, Any]) -> SourceRecipe:
    """The record of a row; for an unread source, a record that leaves everything to the framework."""
    found = [r for r in SOURCES if r.applies_to(row)]
    return found[-1] if found else SourceRecipe(row["source_key"], Figure.DRIVER, "", "", open=UNREAD)
