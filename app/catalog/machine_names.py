"""Names that sellers give their machines: the accelerator that a name states, and how many of it the machine has."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from app.catalog.files import read_data_file
from app.catalog.names import fold_name
from app.sizing.facts import build


@dataclass(frozen=True)
class MachinePattern:
    """A pattern of names in lower case with the groups `gpu` and `count`, and boards that one seller means.

    Names that state a size instead have the group `size`, in units of which `per` make up one accelerator; a group
    `per` overrides that. `counts` are counts that a seller numbers otherwise. A name without a count means `count`.
    """

    sellers: str
    pattern: str
    gpus: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    count: int = 1
    units: int = 1
    per: int = 1

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def count_accelerators(self, groups: Mapping[str, str | None]) -> int:
        """Accelerators of the machine with these groups; 0 if its size is no whole number of them."""
        if "size" not in groups:
            stated = groups.get("count")
            return (self.counts.get(stated) or int(stated)) if stated else self.count
        size, per = int(groups["size"] or 1) * self.units, int(groups.get("per") or self.per)
        return 0 if per == 0 or size % per else size // per


@dataclass(frozen=True, slots=True)
class MachineNames:
    """Patterns of machine names, the first match counts, and the boards that the names of chips mean."""

    source: str
    read: str
    boards: Mapping[str, str]
    patterns: tuple[MachinePattern, ...]


@dataclass(frozen=True, slots=True)
class NamedMachine:
    """A machine that a name states: the name of its accelerator, as a slug if the tables have it, and the count."""

    accelerator: str
    count: int


TABLES = build(MachineNames, tomllib.loads(read_data_file("machine_names.toml")), where="machine_names.toml")


def read_machine_names(name: str) -> tuple[NamedMachine, ...]:
    """Returns what a seller's machine name may state, the likeliest reading first.

    Check:
        >>> read_machine_names("8x_H100-SXM_SECURE")[0]
        NamedMachine(accelerator='h100-sxm', count=8)
        >>> read_machine_names("BM.GPU.B4.8")[0]
        NamedMachine(accelerator='nvidia-a100-sxm4-40gb', count=8)
        >>> read_machine_names("ecs.gn7i-c32g1.16xlarge")[0]
        NamedMachine(accelerator='nvidia-a10', count=2)
    """
    typed = "-".join(name.lower().split())
    found = []
    for each in TABLES.patterns:
        match = each.regex.fullmatch(typed)
        if match is not None and (count := each.count_accelerators(match.groupdict())):
            gpu = fold_name(match["gpu"])
            found.append(NamedMachine(each.gpus.get(gpu) or TABLES.boards.get(gpu, gpu), count))
    return tuple(found)
