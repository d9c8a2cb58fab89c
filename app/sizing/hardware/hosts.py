"""Memory bandwidth per socket of the host processors that systems name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.sizing.columns import GB
from app.sizing.facts import build, parse_number, read_rows

FILE = "host_processors.csv"


@dataclass(frozen=True, slots=True)
class ProcessorGeneration:
    """A generation of processors, recognized by any of `name_patterns` in a processor name."""

    name_patterns: tuple[str, ...]
    bytes_per_s: float  # memory bandwidth of one socket with all channels populated
    source: str
    as_of: str


def _read_generation(row: Mapping[str, str], line: int) -> ProcessorGeneration:
    where = f"{FILE}, row {line}"
    table = {
        "name_patterns": row["name_patterns"].split(";"),
        "bytes_per_s": parse_number(row["gb_per_s"], where=where) * GB,
        "source": row["source"],
        "as_of": row["as_of"],
    }
    return build(ProcessorGeneration, table, where=where)


# In order: the first match applies.
GENERATIONS = tuple(_read_generation(row, line) for line, row in enumerate(read_rows(FILE), start=2))


def socket_bytes_per_s(cpu_model: str | None) -> float | None:
    """Memory bandwidth of one socket in bytes/s, from the processor name of a system; None if unknown.

    Check:
        >>> socket_bytes_per_s("2x EPYC 9575F"), socket_bytes_per_s("Arm")
        (576000000000.0, None)
    """
    name = (cpu_model or "").lower()
    return next((g.bytes_per_s for g in GENERATIONS if any(word in name for word in g.name_patterns)), None)
