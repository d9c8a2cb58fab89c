"""Builds of engines that run on top of another engine and have no builds of their own."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.hardware.engines.fronts import FRONTS
from app.sizing.hardware.support.local import LOCAL_BUILDS
from app.sizing.hardware.support.records import Build
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
