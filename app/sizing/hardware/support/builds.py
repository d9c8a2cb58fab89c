"""Builds of all engines and what each supports, and engines that run on top of another engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from app.sizing.facts import build_rows
from app.sizing.hardware.engines import FRONTS
from app.sizing.hardware.support.records import Build, FrontTraining, Work
from app.sizing.model.formats import WEIGHT_FORMATS

ANY = "*"  # ends a name that stands for all formats that begin so, such as gguf-*


def matching_formats(name: str) -> tuple[str, ...]:
    """The formats that a name in a data file stands for.

    Check:
        >>> matching_formats("gguf-q4_*"), matching_formats("fp8")
        (('gguf-q4_k_m', 'gguf-q4_k_s', 'gguf-q4_1', 'gguf-q4_0'), ('fp8',))
    """
    if not name.endswith(ANY):
        return (name,)
    return tuple(f for f in WEIGHT_FORMATS if f.startswith(name.removesuffix(ANY)))


OWN_BUILDS: tuple[Build, ...] = tuple(
    replace(b, unpacks=MappingProxyType({f: least for n, least in b.unpacks.items() for f in matching_formats(n)}))
    for b in build_rows(Build, "builds.csv")
)
# Fronts that train other kinds of model than the engine underneath.
_TRAINS = {front.engine: front.trains for front in build_rows(FrontTraining, "front_training.csv")}
_NAMED = frozenset(b.engine for b in OWN_BUILDS)
FRONT_BUILDS: tuple[Build, ...] = tuple(
    replace(build, engine=front.name, trains=_TRAINS.get(front.name, build.trains) if build.trains else ())
    for front in FRONTS
    if front.name not in _NAMED
    for build in OWN_BUILDS
    if build.engine in (front.judged_as, front.adapts_as)
)


_RECORDS = (*OWN_BUILDS, *FRONT_BUILDS)
BUILDS: Mapping[str, tuple[Build, ...]] = {
    name: tuple(b for b in _RECORDS if b.engine == name) for name in dict.fromkeys(b.engine for b in _RECORDS)
}


def supports_work(build: Build, work: Work) -> bool:
    """Whether a build supports a piece of work in some format."""
    if work.is_training:
        return work.method in build.methods and work.task in build.trains
    return work.task in build.serves


@lru_cache(maxsize=4096)
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
