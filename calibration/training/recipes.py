"""Record of a published source: the recipe of its rows, the kind of peak that it prints, and the unknowns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

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
