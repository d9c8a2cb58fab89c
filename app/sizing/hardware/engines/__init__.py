"""What each engine and framework is: how it issues work, divides memory, and lays models out. One record each.

An engine that is not listed here serves, or trains, as most do: whole steps replayed as captured graphs, vLLM's
rule of memory, states sharded over replicas. One that does its work with another is that one, under its own name.
Where an engine runs, and in which formats, is told by the rules and rows of support.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from app.sizing.hardware.engines.fronts import FRONTS
from app.sizing.hardware.engines.record import RULES, Engine, EngineMemory, Framework, WideExperts, release_of
from app.sizing.hardware.engines.serving import SERVING
from app.sizing.hardware.engines.training import TRAINING

__all__ = [
    "ALIASES",
    "ENGINES",
    "RULES",
    "Engine",
    "EngineMemory",
    "Framework",
    "WideExperts",
    "engine_named",
    "place_of",
    "release_of",
]

_RECORDS = (*SERVING, *TRAINING, *FRONTS)
_PLACES = {engine.name: i for i, engine in enumerate(_RECORDS)}
ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in _RECORDS})
ALIASES: Mapping[str, str] = MappingProxyType({alias: e.name for e in _RECORDS for alias in e.aliases})


@cache
def engine_named(name: str) -> Engine:
    """The record of an engine; one that has none is as most are."""
    return ENGINES.get(name) or Engine(name)


def place_of(name: str) -> int:
    """Where an engine is listed here; those without a record come after all others."""
    return _PLACES.get(name, len(_PLACES))
