"""Builds of all engines, and what each supports."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.sizing.hardware.support.fronts import FRONT_BUILDS, OWN_BUILDS
from app.sizing.hardware.support.records import Build, Work

_RECORDS = (*OWN_BUILDS, *FRONT_BUILDS)
BUILDS: Mapping[str, tuple[Build, ...]] = MappingProxyType(
    {name: tuple(b for b in _RECORDS if b.engine == name) for name in dict.fromkeys(b.engine for b in _RECORDS)}
)


def supports_work(build: Build, work: Work) -> bool:
    """Whether a build supports a piece of work in some format."""
    if work.is_training:
        return work.method in build.methods and work.task in build.trains
    return work.task in build.serves


def covers_work(engine: str, work: Work) -> bool:
    """Whether evidence for an engine can apply to this kind of work; an engine with builds must have one that
    supports it.
    """
    builds = BUILDS.get(engine, ())
    return not builds or any(supports_work(b, work) for b in builds)


def accepted_formats(engine: str, work: Work) -> tuple[str, ...]:
    """Every format that some build of an engine accepts for a piece of work."""
    found = (f for b in BUILDS.get(engine, ()) if supports_work(b, work) for f in (*b.multiplies, *b.unpacks))
    return tuple(dict.fromkeys(found))
