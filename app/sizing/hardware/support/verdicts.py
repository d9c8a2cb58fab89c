"""Whether an engine does a piece of work on an accelerator: rules and evidence joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.builds import BUILDS, does, served
from app.sizing.hardware.support.forbidden import FORBIDDEN
from app.sizing.hardware.support.formats import SAID_AS, UNITS, least_capability, words
from app.sizing.hardware.support.generations import GENERATIONS, RUNTIMES, generation_of
from app.sizing.hardware.support.records import (
    FINE_TUNING,
    FULL,
    PRETRAINING,
    QLORA,
    SAMPLES,
    Build,
    EngineSupport,
    Generation,
    Level,
    Verdict,
    Work,
)
from app.sizing.hardware.support.words import not_done
from app.sizing.model.formats import WEIGHT_FORMATS

# Layers that a refusal may be the work of, in order.
_RUNTIME, _CHIP, _WORK, _FORMAT = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the rules alone say: `says` True runs, False never, None nothing; {name} stands for the accelerator."""

    says: bool | None
    rule: str
    source: str
    native: bool = False
    kv_formats: tuple[str, ...] = ()
    far: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A published result, as far as support goes."""

    engine: str
    family: str
    format_class: str
    trains: bool


class Documents:
    """Evidence: rows of the catalogue by engine, family and phase, and what was measured."""

    def __init__(self, rows: Sequence[EngineSupport] = (), measured: Iterable[Measured] = ()) -> None:
        self.rows = {(r.engine, r.family, r.phase): r for r in rows}
        self.measured = frozenset(measured)

    def row(self, engine: str, family: str, weight_format: str, work: Work) -> EngineSupport | None:
        """The surest row that says so."""
        said = SAID_AS.get(weight_format, (weight_format,))
        if work.method == QLORA:
            said = (*said, "int4-mlx")  # what mlx holds the base in
        found = (self.rows.get((engine, family, phase)) for phase in phases_of(work))
        saying = [r for r in found if r is not None and any(f in r.weight_formats for f in said)]
        return min(saying, key=lambda r: r.tentative, default=None)

    def engines(self, family: str) -> set[str]:
        """Engines that rows or results name on a family."""
        return {e for e, f, _ in self.rows if f == family} | {m.engine for m in self.measured if m.family == family}

    def formats(self, engine: str, family: str, phase: str) -> tuple[str, ...]:
        """Formats that a row names."""
        row = self.rows.get((engine, family, phase))
        return () if row is None else tuple(row.weight_formats)

    def tells(
        self, engine: str, family: str, weight_format: str, work: Work, *, native: bool, format_is_named: bool
    ) -> bool:
        """Whether a published result is of the same stack. Results do not tell adapters and kinds of sample apart, nor
        formats that are computed alike, unless a row names the format.
        """
        if work.phase == SAMPLES or work.method not in ("", FULL):
            return False
        if not work.trains and weight_format not in WEIGHT_FORMATS:
            return False
        unit = UNITS.get(weight_format, "")
        kind = unit if work.trains else WEIGHT_FORMATS[weight_format].format_class(native=native)
        kind = "16bit" if kind in ("bf16", "fp16") else "fp8" if kind == "mx" else kind
        if kind in ("weight_only", "fp4") and not format_is_named:
            return False
        return Measured(engine, family, kind, work.trains) in self.measured


NONE = Documents()


def phases_of(work: Work) -> tuple[str, ...]:
    """Phases of evidence that tell of a piece of work: who trains a whole model can go on training one."""
    return (PRETRAINING, FINE_TUNING) if work.phase == FINE_TUNING and work.method == FULL else (work.phase,)


def verdict(
    accelerator: Accelerator, engine: str, weight_format: str, work: Work, documents: Documents = NONE
) -> Verdict:
    """Whether an engine does a piece of work on an accelerator with weights in a format, by which rule and source.

    What a rule forbids is refused whatever a row of its family says; then comes what was written down or measured,
    then what follows from the rules.
    """
    ruling = ruled(generation_of(accelerator), engine, weight_format, work)
    rule = ruling.rule.format(name=accelerator.name)
    if ruling.says is False:
        return Verdict(Level.REFUSED, rule, ruling.source, far=ruling.far)
    does_it = served(engine, work)
    row = documents.row(engine, accelerator.family, weight_format, work) if does_it else None
    native = ruling.native
    if row is not None and not ruling.says:
        native = row.weight_formats.get(weight_format, False) and _multiplies(accelerator, weight_format)
    elif row is not None and weight_format in row.weight_formats:
        native = native and row.weight_formats[weight_format]
    told = does_it and documents.tells(
        engine, accelerator.family, weight_format, work, native=native, format_is_named=row is not None
    )
    if row is None and not ruling.says and not told:
        return Verdict(Level.REFUSED, rule, ruling.source, far=ruling.far)
    kv = ruling.kv_formats if row is None else row.kv_formats or ruling.kv_formats
    if row is not None and (told or not row.tentative):
        said = f"The catalogue's sources say that {engine} runs {words(weight_format)} on this family."
        return Verdict(Level.DOCUMENTED, said, row.source, native, kv)
    if told:
        return Verdict(
            Level.DOCUMENTED,
            f"Results of {engine} on this family in {words(weight_format)} or its like were published.",
            "measurements of the catalogue",
            native,
            kv,
        )
    if not ruling.says and row is not None:
        return Verdict(
            Level.EXPECTED,
            f"One source says so of {engine} on this family, with low confidence.",
            row.source,
            native,
            kv,
        )
    return Verdict(Level.EXPECTED, rule, ruling.source, native, kv)


@cache
def ruled(generation: Generation, engine: str, weight_format: str, work: Work) -> Ruling:
    """What the rules say, without evidence: of several builds the one that gets farthest."""
    for f in FORBIDDEN:
        if (work.in_16_bit or not f.in_16_bit) and all(
            not among or it in among
            for it, among in (
                (engine, f.engines),
                (generation.name, f.generations),
                (weight_format, f.formats),
                (work.task, f.tasks),
                (work.phase, f.phases),
            )
        ):
            return Ruling(False, f.text, f.source, far=_FORMAT)
    builds = BUILDS.get(engine, ())
    if not builds:
        return Ruling(None, f"No record says where {engine} runs.", "rules of Headroom")
    own = [b for b in builds if set(b.runtimes) & set(generation.runtimes)]
    if not own:
        on = " or ".join(RUNTIMES[r].words for r in generation.runtimes) or "{name}"
        return Ruling(None, f"No build of {engine} for {on} is known.", builds[0].source, far=_RUNTIME)
    doing = [b for b in own if does(b, work)]
    found = [_by_build(generation, b, weight_format, work) for b in doing or own]
    return max(found, key=lambda r: (r.says is True, r.native, r.far))


def _by_build(generation: Generation, build: Build, weight_format: str, work: Work) -> Ruling:
    engine, source, capability = build.engine, build.source, generation.capability
    if capability is not None and capability < build.least:
        text = f"{{name}} has {generation.name}; {engine} needs {build.least:.1f}."
        return Ruling(False, text, source, far=_CHIP)
    if build.on and generation.name not in build.on:
        of_family = any(g.name in build.on for g in _relatives(generation.family))
        text = f"{engine} is built for {', '.join(build.on)}; {{name}} is {generation.name}."
        return Ruling(False if of_family else None, text, source, far=_CHIP)
    if not does(build, work):
        return Ruling(None, f"{not_done(engine, work)}.", source, far=_WORK)
    return _by_format(generation, build, weight_format, work)


def _by_format(generation: Generation, build: Build, weight_format: str, work: Work) -> Ruling:
    """What a build makes of a format on a chip: multiplied, widened, or neither."""
    engine, source, capability = build.engine, build.source, generation.capability
    named, unit = words(weight_format), UNITS.get(weight_format)
    kv = build.kv
    if work.precision and UNITS[work.precision] not in generation.multiplies:
        return Ruling(False, _lacks(generation, engine, work.precision), source, far=_FORMAT)
    if weight_format in build.multiplies and (unit is None or unit in generation.multiplies):
        return Ruling(True, f"{engine} multiplies {named} on {generation.name}.", source, True, kv, _FORMAT)
    if weight_format in build.unpacks:
        least = build.unpacks[weight_format]
        if capability is None or capability >= least:
            text = f"{engine} widens {named} to 16 bits on {generation.name}."
            return Ruling(True, text, source, False, kv, _FORMAT)
        needs = f"{engine} needs {least:.1f} for {named}"
        if unit is not None:
            needs = f"{named} needs {least_capability(unit):.1f}, and {engine} widens it from {least:.1f} on"
        text = f"{{name}} has {generation.name}; {needs}."
        return Ruling(False, text, source, far=_FORMAT)
    if weight_format in build.multiplies:
        return Ruling(False, _lacks(generation, engine, weight_format), source, far=_FORMAT)
    if unit == "bf16" and unit not in generation.multiplies:
        return Ruling(False, _lacks(generation, engine, weight_format), source, far=_FORMAT)
    return Ruling(None, f"{engine} takes no {named} there, as far as is known.", source, far=_FORMAT)


def _lacks(generation: Generation, engine: str, weight_format: str) -> str:
    named = words(weight_format)
    if generation.capability is not None:
        return f"{{name}} has {generation.name}; {named} needs {least_capability(UNITS[weight_format]):.1f}."
    return f"{{name}} is {generation.name}, which does not multiply {named}, and {engine} does not widen it there."


@cache
def _relatives(family: str) -> tuple[Generation, ...]:
    return tuple(g for g in GENERATIONS if g.family == family)


def _multiplies(accelerator: Accelerator, weight_format: str) -> bool:
    unit = UNITS.get(weight_format)
    return unit is not None and unit in generation_of(accelerator).multiplies
