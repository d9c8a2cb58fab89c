"""Records of support rules and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from app.sizing.hardware.engines import engine_rank
from app.sizing.model.tasks import ModelTask

SERVING, SAMPLES, PRETRAINING, FINE_TUNING = "inference", "sample_inference", "training", "fine_tuning"
PHASES = (FINE_TUNING, SERVING, SAMPLES, PRETRAINING)
# Training methods; serving has none.
FULL, LORA, QLORA = "full", "lora", "qlora"


class Level(StrEnum):
    """Level of software support."""

    REFUSED = "refused"
    EXPECTED = "expected"  # follows from rules
    DOCUMENTED = "documented"  # documented by a source, or measured


LEVELS = tuple(Level)


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """Evidence that a software stack runs on a family, end to end, in some formats.

    `weight_formats` maps a format to whether the hardware also computes in it; False means that weights are
    converted to 16 bits first. `tentative` marks evidence of low confidence. `statements` quotes the source for each
    documented format, or for all of them under "*"; a format without a statement is not documented by the row.
    """

    engine: str
    family: str
    phase: str
    weight_formats: Mapping[str, bool]
    kv_formats: tuple[str, ...]
    source: str
    tentative: bool = False
    statements: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({"*": "listed"}))

    def statement(self, weight_formats: Iterable[str]) -> str | None:
        """What the source states about one of these formats; None if it states nothing or the row is tentative."""
        if self.tentative:
            return None
        return next((self.statements[f] for f in (*weight_formats, "*") if f in self.statements), None)

    @property
    def sort_key(self) -> tuple[bool, int, str]:
        """Sort key: higher confidence first, then the order of engines, then the name."""
        return self.tentative, engine_rank(self.engine), self.engine


@dataclass(frozen=True, slots=True)
class Runtime:
    """Software layer that drives chips, such as CUDA: its slug and its name in sentences."""

    name: str
    display_name: str


@dataclass(frozen=True, slots=True)
class Generation:
    """Chips that software treats alike: the formats they multiply and the runtimes that drive them.

    `architectures` are the architecture names of the catalog, `slugs` single chips; without either the record covers
    the rest of the family. `capability` is the CUDA compute capability; `multiplies` are the formats of the matrix
    units; `fp32_lanes` are the FP32 units of a multiprocessor.
    """

    family: str
    name: str
    runtimes: tuple[str, ...]
    multiplies: tuple[str, ...]
    capability: float | None = None
    fp32_lanes: int | None = None
    architectures: tuple[str, ...] = ()
    slugs: tuple[str, ...] = ()
    source: str = ""
    as_of: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Build:
    """An engine or framework on one or several runtimes.

    `least` is the lowest CUDA compute capability, `on` the generations that the build supports (default: all that
    its runtimes drive). The build multiplies the formats of `multiplies` where the chip does, and converts those of
    `unpacks` to 16 bits from a compute capability on (0: wherever it runs). `methods` are its training methods,
    `serves` and `trains` the kinds of model.
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
    note: str = ""


@dataclass(frozen=True, slots=True)
class FrontTraining:
    """Kinds of model that a front trains, where they differ from those of the engine underneath."""

    engine: str
    trains: tuple[ModelTask, ...]
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A combination that does not run although evidence for the family or a build allows it; an empty field matches
    all.
    """

    text: str
    source: str
    as_of: str
    engines: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    tasks: tuple[ModelTask, ...] = ()
    phases: tuple[str, ...] = ()
    in_16_bit: bool = False  # matches only training that keeps nothing in 32 bits


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work: phase, training method and precision, and kind of model."""

    phase: str
    method: str = ""
    task: ModelTask = ModelTask.DECODER
    precision: str = ""  # precision of adapter training, if the base is stored in another format
    in_16_bit: bool = False  # training keeps nothing in 32 bits

    @property
    def is_training(self) -> bool:
        return self.phase in (PRETRAINING, FINE_TUNING)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether software supports a piece of work on an accelerator, with the rule and the source.

    `native` is true if it multiplies in the format; otherwise it converts to 16 bits first.
    """

    level: Level
    rule: str
    source: str
    native: bool = False
    kv_formats: tuple[str, ...] = ()
    far: int = 0  # layers passed before the refusal

    @property
    def is_supported(self) -> bool:
        return self.level is not Level.REFUSED
