"""Host processors: memory bandwidth per socket, and instruction sets of images; what drivers exclude."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.sizing.columns import GB
from app.sizing.facts import build, build_rows, parse_number, read_rows
from app.sizing.hardware.parts import Segment, System

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


def hosts_of_machines(systems: Iterable[System]) -> Mapping[str, int]:
    """Number of hosts of the machines that have several, by slug."""
    return {s.slug: s.hosts for s in systems if s.hosts > 1}


@dataclass(frozen=True, slots=True)
class HostProcessor:
    """A host processor whose instruction set is not x86-64.

    A system has it if its processor name contains one of `name_patterns`. Machines without a processor name have it
    if their accelerator is one of `accelerators`: parts that are sold only on a board or module with this processor.
    """

    architecture: str  # as container registries name it
    processor: str  # name in sentences
    name_patterns: tuple[str, ...]
    source: str
    as_of: str
    accelerators: tuple[str, ...] = ()


OTHER_HOSTS = build_rows(HostProcessor, "host_architectures.csv")


def other_host(cpu_model: str | None, accelerator: str) -> HostProcessor | None:
    """The host processor of a machine that does not run x86-64 images; None for x86-64 and macOS machines.

    Check:
        >>> getattr(other_host("2x Grace", "nvidia-gb200-186gb"), "architecture", None)
        'aarch64'
        >>> other_host("2x EPYC 9575F", "nvidia-h100-sxm5-80gb") is None
        True
    """
    name = (cpu_model or "").lower()
    if name:
        return next((h for h in OTHER_HOSTS if any(word in name for word in h.name_patterns)), None)
    return next((h for h in OTHER_HOSTS if accelerator in h.accelerators), None)


@dataclass(frozen=True, slots=True)
class DriverLicense:
    """Uses that the driver license of a vendor excludes on parts of a segment."""

    vendor: str
    segment: Segment
    excludes: str
    source: str
    as_of: str


DRIVER_LICENSES = build_rows(DriverLicense, "driver_licenses.csv")


def excluded_use(vendor: str, segment: Segment) -> str | None:
    """Use that the driver license excludes; None if none is known.

    Check:
        >>> excluded_use("NVIDIA", Segment.CONSUMER), excluded_use("AMD", Segment.CONSUMER)
        ('data-center use', None)
    """
    return next((one.excludes for one in DRIVER_LICENSES if (one.vendor, one.segment) == (vendor, segment)), None)


@dataclass(frozen=True, slots=True)
class NoPeerAccess:
    """Accelerators whose driver copies through host memory where they are connected by PCIe."""

    vendor: str
    segment: Segment
    architectures: tuple[str, ...]
    source: str
    as_of: str


NO_PEER_ACCESS = build_rows(NoPeerAccess, "peer_access.csv")


def has_peer_access(vendor: str, segment: Segment, architecture: str) -> bool:
    """Whether accelerators on PCIe read each other's memory directly.

    Check:
        >>> has_peer_access("NVIDIA", Segment.CONSUMER, "Ada"), has_peer_access("NVIDIA", Segment.WORKSTATION, "Ada")
        (False, True)
    """
    return not any(
        (one.vendor, one.segment) == (vendor, segment) and architecture in one.architectures for one in NO_PEER_ACCESS
    )
