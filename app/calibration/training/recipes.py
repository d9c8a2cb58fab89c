"""What a record of a published source says: the recipe of its rows, which figure it prints, what it leaves open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.sizing.hardware.recipes import RecipeSaid


class Figure(StrEnum):
    """Which peak a source prints."""

    ALLOCATED = "allocated"  # tensors alone
    RESERVED = "reserved"  # what the framework's allocator took of the device
    DRIVER = "driver"  # what the device shows as used: context and communication buffers too


@dataclass(frozen=True, slots=True)
class SourceRecipe:
    """The recipe of a source's rows, of those whose columns match `where` (patterns by column).

    `open` is what a peak depends on and nobody published: its rows are compared and not fitted.
    """

    source: str
    figure: Figure
    read_in: str
    as_of: str
    said: RecipeSaid | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    open: str = ""
    lora_targets: str | tuple[str, ...] = "all-linear"
    lora_rank: int = 16
    sequence_parallel: bool | None = None
    may_offload: bool = False  # activations, by a switch of which nobody says whether it was on

    def suits(self, row: Mapping[str, Any]) -> bool:
        """Whether it is this row's."""
        columns = all(re.search(words, row.get(column) or "") for column, words in self.where.items())
        return row["source_key"] == self.source and columns
