"""Engines and frameworks, one record each: how they launch work, divide memory and lay out models.

An engine without a record gets the usual behavior: whole steps replayed as captured graphs, vLLM's memory rule, and
states sharded over replicas. An engine that runs on top of another one is that engine under its own name. The rules
and rows in `support` say where an engine runs and in which formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from app.sizing.hardware.engines.read import read_engines
from app.sizing.hardware.engines.record import (
    LATENT_COPIES,
    RULES,
    Engine,
    EngineMemory,
    Framework,
    WideExperts,
    release_of,
)

_RECORDS = read_engines()
FRONTS = tuple(engine for engine in _RECORDS if engine.judged_as is not None)
_PLACES = {engine.name: i for i, engine in enumerate(_RECORDS)}
ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in _RECORDS})
ALIASES: Mapping[str, str] = MappingProxyType({alias: e.name for e in _RECORDS for alias in e.aliases})


@cache
def engine_named(name: str) -> Engine:
    """The record of an engine; a record with the usual behavior if there is none."""
    return ENGINES.get(name) or Engine(name)


def engine_rank(name: str) -> int:
    """Position of an engine in the list; engines without a record come last."""
    return _PLACES.get(name, len(_PLACES))
