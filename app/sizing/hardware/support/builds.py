"""Builds of all engines and what each supports, and engines that run on top of another engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from app.sizing.hardware.engines.fronts import FRONTS
from app.sizing.hardware.support.local import LOCAL_BUILDS
from app.sizing.hardware.support.records import Build, Work
from app.sizing.hardware.support.samples import SAMPLE_BUILDS
from app.sizing.hardware.support.serving import SERVING_BUILDS
from app.sizing.hardware.support.training import TRAINING_BUILDS
from app.sizing.model.tasks import ModelTask

_LANGUAGE, _IMAGES = (ModelTask.DECODER,), (ModelTask.DIFFUSION,)
# Fronts that train other kinds of model than the engine underneath; source: their own pages of August 2026.
_TRAINS = {
    "kohya": _IMAGES,
    "nemo-automodel": (*_LANGUAGE, ModelTask.EMBEDDING, ModelTask.RERANKER, *_IMAGES),
    "nemo-rl": _LANGUAGE,
    "openrlhf": _LANGUAGE,
    "simpletuner": _IMAGES,
    "xtuner": _LANGUAGE,
}

OWN_BUILDS: tuple[Build, ...] = (*SERVING_BUILDS, *LOCAL_BUILDS, *SAMPLE_BUILDS, *TRAINING_BUILDS)
_NAMED = frozenset(b.engine for b in OWN_BUILDS)
FRONT_BUILDS: tuple[Build, ...] = tuple(
    replace(build, engine=front.name, trains=_TRAINS.get(front.name, build.trains) if build.trains else ())
    for front in FRONTS
    if front.name not in _NAMED
    for build in OWN_BUILDS
    if build.engine in (front.judged_as, front.adapts_as)
)


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
