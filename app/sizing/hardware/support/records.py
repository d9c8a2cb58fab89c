"""What rules and evidence are made of, one record each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from app.sizing.hardware.engines import place_of
from app.sizing.model.tasks import ModelTask

SERVING, SAMPLES, PRETRAINING, FINE_TUNING = "inference", "sample_inference", "training", "fine_tuning"
PHASES = (FINE_TUNING, SERVING, SAMPLES, PRETRAINING)
# Ways of training; serving has none.
FULL, LORA, QLORA = "full", "lora", "qlora"


class Level(StrEnum):
    """How surely software runs."""

    REFUSED = "refused"
    EXPECTED = "expected"  # follows from the rules
    DOCUMENTED = "documented"  # somebody wrote it down, or measured it


LEVELS = tuple(Level)


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """Evidence: a software stack that was made to run on a family: which formats, end to end.

    `weight_formats` maps a format to whether the hardware also computes in it; False means that
    weights are widened to 16 bit first. `tentative` marks what is known with low confidence only.
    """

    engine: str
    family: str
    phase: str
    weight_formats: Mapping[str, bool]
    kv_formats: tuple[str, ...]
    source: str
    tentative: bool = False

    @property
    def order(self) -> tuple[bool, int, str]:
        """Sorts support: of equals the surer is chosen, then the engine that is listed first, then by name."""
        return self.tentative, place_of(self.engine), self.engine


@dataclass(frozen=True, slots=True)
class Runtime:
    """What drives chips: a name, and how people call it."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Generation:
    """Chips that software does not tell apart: what they multiply, and which runtimes drive them.

    `architectures` are the catalogue's words for it, `slugs` single chips; without either it is the rest of its
    family. `capability` orders what CUDA drives; `multiplies` are number formats its matrix units take.
    """

    family: str
    name: str
    runtimes: tuple[str, ...]
    multiplies: tuple[str, ...]
    capability: float | None = None
    architectures: tuple[str, ...] = ()
    slugs: tuple[str, ...] = ()
    source: str = ""
    as_of: str = ""


def widened(*formats: str, least: float = 0.0) -> dict[str, float]:
    """Formats that a build widens to 16 bits, from a compute capability on; 0: wherever it runs.

    Check:
        >>> widened("fp8", least=8.0)
        {'fp8': 8.0}
    """
    return dict.fromkeys(formats, least)


@dataclass(frozen=True, slots=True)
class Build:
    """An engine or framework on one or several runtimes.

    `least` is the CUDA compute capability it needs, `on` the generations it is built for, if not all that its
    runtimes drive. It multiplies the formats of `multiplies` where the chip does, and widens those of `unpacks` to 16
    bits from a compute capability on (0: wherever it runs). `methods` are the ways it trains, `serves` and `trains`
    kinds of model.
    """

    engine: str
    runtimes: tuple[str, ...]
    source: str
    as_of: str
    serves: tuple[ModelTask, ...] = ()
    trains: tuple[ModelTask, ...] = ()
    methods: tuple[str, ...] = ()
    multiplies: tuple[str, ...] = ()
    unpacks: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    kv: tuple[str, ...] = ()
    least: float = 0.0
    on: tuple[str, ...] = ()
    since: str = ""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """What does not run although evidence of a family, or a build, might say so; empty fields hold for all."""

    text: str
    source: str
    as_of: str
    engines: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    tasks: tuple[ModelTask, ...] = ()
    phases: tuple[str, ...] = ()
    in_16_bit: bool = False  # only training that keeps nothing in 32


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done: a phase, how a model is trained and in what, and what kind of model it is."""

    phase: str
    method: str = ""
    task: ModelTask = ModelTask.DECODER
    precision: str = ""  # that adapters are trained in, where the base is held in another format
    in_16_bit: bool = False  # nothing is kept in 32

    @property
    def trains(self) -> bool:
        return self.phase in (PRETRAINING, FINE_TUNING)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether software does a piece of work on an accelerator, by which rule, and who says so.

    `native` says that it multiplies in the format; otherwise it widens to 16 bits first.
    """

    level: Level
    rule: str
    source: str
    native: bool = False
    kv_formats: tuple[str, ...] = ()
    far: int = 0  # how many layers were passed before it was refused

    @property
    def runs(self) -> bool:
        return self.level is not Level.REFUSED
