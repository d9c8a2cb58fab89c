"""Verdicts on software support: rules and evidence combined, the rule that excludes, and both as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import MappingProxyType

from app.sizing.facts import build_tables
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.builds import BUILDS, covers_work, matching_formats, supports_work
from app.sizing.hardware.support.generations import CAPABILITY, GENERATIONS, RUNTIMES, generation_of
from app.sizing.hardware.support.records import (
    FINE_TUNING,
    FULL,
    PRETRAINING,
    QLORA,
    SAMPLES,
    Build,
    EngineSupport,
    Forbidden,
    Generation,
    Level,
    Verdict,
    Work,
)
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tasks import ModelTask
from app.sizing.words import product_name

FORBIDDEN: tuple[Forbidden, ...] = tuple(
    replace(f, formats=tuple(own for name in f.formats for own in matching_formats(name)))
    for f in build_tables(Forbidden, "forbidden.toml", "forbidden")
)


# Format that matrix units must multiply so that no conversion is needed. Other formats are always converted.
UNITS: Mapping[str, str] = MappingProxyType(
    {f.name: {"nvfp4": "fp4", "mxfp4": "fp4"}.get(f.name, f.rate) for f in WEIGHT_FORMATS.values() if f.rate}
    | {"tf32": "fp32", "mxfp8": "mx"}
)
UNIT_CACHES = ("nvfp4",)  # KV cache formats that only chips with matrix units for them read
# Formats in evidence that also document another format: FP32 runs wherever 16-bit formats do.
EVIDENCE_NAMES: Mapping[str, tuple[str, ...]] = {
    "mxfp8": ("fp8", "mxfp8"),
    "fp32": ("fp32", "tf32", "bf16", "fp16"),
    "tf32": ("tf32", "fp32", "bf16"),
}
# Precisions that keep everything in 16 bits, and the format they multiply in.
_PRECISIONS: Mapping[str, str] = MappingProxyType({"bf16-true": "bf16"})


def stored_as(precision: str) -> str:
    """Format in which a training precision multiplies.

    Check:
        >>> stored_as("bf16-true"), stored_as("mxfp8")
        ('bf16', 'mxfp8')
    """
    return _PRECISIONS.get(precision, precision)


def keeps_16_bit(precision: str) -> bool:
    """Whether a training precision keeps nothing in 32 bits.

    Check:
        >>> keeps_16_bit("bf16-true"), keeps_16_bit("bf16")
        (True, False)
    """
    return precision in _PRECISIONS


def format_words(weight_format: str) -> str:
    """A format as sentences write it.

    Check:
        >>> format_words("gguf-q4_k_m"), format_words("int4-awq")
        ('GGUF Q4_K_M', 'INT4 AWQ')
    """
    return weight_format.upper().replace("-", " ")


def least_capability(unit: str) -> float:
    """Lowest CUDA compute capability whose matrix units multiply the format.

    Check: FP8 since Ada, 4 bits since Blackwell.
        >>> least_capability("fp8"), least_capability("fp4")
        (8.9, 10.0)
    """
    return min(g.capability for g in GENERATIONS if g.capability is not None and unit in g.multiplies)


MODELS: Mapping[ModelTask, str] = {
    ModelTask.DECODER: "text generation models",
    ModelTask.EMBEDDING: "embedding models",
    ModelTask.RERANKER: "rerankers",
    ModelTask.SPEECH: "speech models",
    ModelTask.DIFFUSION: "diffusion models",
    ModelTask.VISION: "vision models",
}
_HOW: Mapping[str, str] = MappingProxyType({"full": "full ", "lora": "LoRA ", "qlora": "QLoRA "})


def work_name(work: Work) -> str:
    """Name of a piece of work.

    Check:
        >>> work_name(Work("fine_tuning", "qlora")), work_name(Work("inference"))
        ('QLoRA fine-tuning', 'serving')
    """
    if not work.is_training:
        return "serving"
    if work.phase == PRETRAINING:
        return "training"
    return f"{_HOW.get(work.method, '')}fine-tuning"


def unsupported_text(engine: str, work: Work) -> str:
    """Sentence part that an engine, or without a name any engine, does not support a piece of work.

    Check:
        >>> unsupported_text("tgi", Work("inference", task=ModelTask.SPEECH))
        'TGI does not serve speech models'
        >>> unsupported_text("", Work("fine_tuning", "qlora"))
        'No known framework supports QLoRA fine-tuning of text generation models'
    """
    models, name = MODELS[work.task], product_name(engine)
    if work.is_training:
        return (
            f"{f'{name} does not support' if engine else 'No known framework supports'} {work_name(work)} of {models}"
        )
    return f"{f'{name} does not serve' if engine else 'No known engine serves'} {models}"


# Layers at which a rule can refuse, in order.
_RUNTIME, _CHIP, _WORK, _FORMAT = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Ruling:
    """Result of the rules alone: `says` is True if the work runs, False if it does not, None if the rules do not say.

    {name} in `rule` stands for the accelerator.
    """

    says: bool | None
    rule: str
    source: str
    native: bool = False
    kv_formats: tuple[str, ...] = ()
    far: int = 0


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """What a published result shows about support."""

    engine: str
    family: str
    format_class: str
    trains: bool


class SupportEvidence:
    """Evidence: rows of the catalog by engine, family and phase, and published results."""

    def __init__(self, rows: Sequence[EngineSupport] = (), measured: Iterable[PublishedResult] = ()) -> None:
        self.rows = {(r.engine, r.family, r.phase): r for r in rows}
        self.measured = frozenset(measured)

    def find_row(self, engine: str, family: str, weight_format: str, work: Work) -> EngineSupport | None:
        """The row with the highest confidence that documents a format for a piece of work; None without one."""
        rows = [self.rows.get((engine, family, phase)) for phase in evidence_phases(work)]
        found = [row for row in rows if row is not None]
        if not found:
            return None
        said = evidence_formats(weight_format, work)
        saying = [r for r in found if any(f in r.weight_formats for f in said)]
        return min(saying, key=lambda r: r.statement(said) is None, default=None)

    def engines(self, family: str) -> set[str]:
        """Engines with evidence rows or results on a family."""
        return {e for e, f, _ in self.rows if f == family} | {m.engine for m in self.measured if m.family == family}

    def formats(self, engine: str, family: str, phase: str) -> tuple[str, ...]:
        """Formats that an evidence row lists."""
        row = self.rows.get((engine, family, phase))
        return () if row is None else tuple(row.weight_formats)

    def has_result(
        self, engine: str, family: str, weight_format: str, work: Work, *, native: bool, format_is_named: bool
    ) -> bool:
        """Whether a published result is of the same stack.

        Results do not distinguish adapter methods and kinds of sample. They do not distinguish formats with the same
        computation either, unless an evidence row names the format.
        """
        if work.phase == SAMPLES or work.method not in ("", FULL):
            return False
        if not work.is_training and weight_format not in WEIGHT_FORMATS:
            return False
        unit = UNITS.get(weight_format, "")
        kind = unit if work.is_training else WEIGHT_FORMATS[weight_format].format_class(native=native)
        kind = "16bit" if kind in ("bf16", "fp16") else "fp8" if kind == "mx" else kind
        if kind in ("weight_only", "fp4") and not format_is_named:
            return False
        return PublishedResult(engine, family, kind, work.is_training) in self.measured


NO_EVIDENCE = SupportEvidence()


def evidence_formats(weight_format: str, work: Work) -> tuple[str, ...]:
    said = EVIDENCE_NAMES.get(weight_format, (weight_format,))
    return (*said, "int4-mlx") if work.method == QLORA else said  # format in which MLX stores the base


def evidence_phases(work: Work) -> tuple[str, ...]:
    """Phases whose evidence applies to a piece of work: software that pretrains a model can also fine-tune all of
    it.
    """
    return (PRETRAINING, FINE_TUNING) if work.phase == FINE_TUNING and work.method == FULL else (work.phase,)


def verdict(
    accelerator: Accelerator, engine: str, weight_format: str, work: Work, documents: SupportEvidence = NO_EVIDENCE
) -> Verdict:
    """Whether an engine supports a piece of work on an accelerator with weights in a format, with rule and source.

    A rule that forbids takes precedence over evidence for the family; evidence takes precedence over rules that
    allow.
    """
    ruling = apply_rules(generation_of(accelerator), engine, weight_format, work)
    rule = ruling.rule.format(name=accelerator.name)
    if ruling.says is False:
        return Verdict(Level.REFUSED, rule, ruling.source, far=ruling.far)
    covered = covers_work(engine, work)
    row = documents.find_row(engine, accelerator.family, weight_format, work) if covered else None
    native = ruling.native
    if row is not None and not ruling.says:
        native = row.weight_formats.get(weight_format, False) and _computes_natively(accelerator, weight_format)
    elif row is not None and weight_format in row.weight_formats:
        native = native and row.weight_formats[weight_format]
    is_measured = covered and documents.has_result(
        engine, accelerator.family, weight_format, work, native=native, format_is_named=row is not None
    )
    if row is None and not ruling.says and not is_measured:
        return Verdict(Level.REFUSED, rule, ruling.source, far=ruling.far)
    kv = ruling.kv_formats if row is None else row.kv_formats or ruling.kv_formats
    stated = None if row is None else row.statement(evidence_formats(weight_format, work))
    if row is not None and stated is not None:
        text = (
            f"Catalog sources document {product_name(engine)} with {format_words(weight_format)} on this hardware "
            f"family: {stated}."
        )
        return Verdict(Level.DOCUMENTED, text, row.source, native, kv)
    if is_measured:
        return Verdict(
            Level.DOCUMENTED,
            f"Benchmark results are published for {product_name(engine)} on this hardware family with "
            f"{format_words(weight_format)} or an equivalent format.",
            "measurements in the catalog",
            native,
            kv,
        )
    if not ruling.says and row is not None:
        return Verdict(
            Level.EXPECTED,
            f"A catalog source without a quoted statement lists {product_name(engine)} on this hardware family.",
            row.source,
            native,
            kv,
        )
    return Verdict(Level.EXPECTED, rule, ruling.source, native, kv)


@lru_cache(maxsize=4096)
def work_key(engine: str, work: Work) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Builds of an engine that support a piece of work, and rules about kinds of model that forbid it.

    An engine supports serving work of one phase in the same way where these are equal.
    """
    doing = tuple(supports_work(build, work) for build in BUILDS.get(engine, ()))
    return doing, tuple(work.task in f.tasks for f in FORBIDDEN if f.tasks)


@lru_cache(maxsize=4096)
def apply_rules(generation: Generation, engine: str, weight_format: str, work: Work) -> Ruling:
    """Result of the rules without evidence; of several builds, the one that passes the most layers."""
    for f in _forbidden_for(engine, generation.name):
        if (
            (work.in_16_bit or not f.in_16_bit)
            and (not f.formats or weight_format in f.formats)
            and (not f.tasks or work.task in f.tasks)
            and (not f.phases or work.phase in f.phases)
        ):
            return Ruling(False, f.text, f.source, far=_FORMAT)
    builds = BUILDS.get(engine, ())
    if not builds:
        text = f"The catalog does not record which hardware {product_name(engine)} runs on."
        return Ruling(None, text, "rules of Headroom")
    own = _builds_on(engine, generation.runtimes)
    if not own:
        on = " or ".join(RUNTIMES[r].display_name for r in generation.runtimes) or "{name}"
        return Ruling(None, f"{product_name(engine)} has no known build for {on}.", builds[0].source, far=_RUNTIME)
    doing = [b for b in own if supports_work(b, work)]
    found = [_rule_for_build(generation, b, weight_format, work) for b in doing or own]
    return max(found, key=lambda r: (r.says is True, r.native, r.far))


@lru_cache(maxsize=4096)
def _forbidden_for(engine: str, generation: str) -> tuple[Forbidden, ...]:
    """Combinations with this engine and generation that do not run."""
    return tuple(
        f
        for f in FORBIDDEN
        if (not f.engines or engine in f.engines) and (not f.generations or generation in f.generations)
    )


@lru_cache(maxsize=4096)
def _builds_on(engine: str, runtimes: tuple[str, ...]) -> tuple[Build, ...]:
    return tuple(b for b in BUILDS.get(engine, ()) if not set(b.runtimes).isdisjoint(runtimes))


def _rule_for_build(generation: Generation, build: Build, weight_format: str, work: Work) -> Ruling:
    engine, source, capability = product_name(build.engine), build.source, generation.capability
    if capability is not None and capability < build.least:
        text = f"{{name}} has {generation.name}; {engine} requires {build.least:.1f} or higher."
        return Ruling(False, text, source, far=_CHIP)
    if build.on and generation.name not in build.on:
        of_family = any(g.name in build.on for g in _family_generations(generation.family))
        text = f"{engine} supports this only on {', '.join(build.on)}; {{name}} {_identity_text(generation)}."
        return Ruling(False if of_family else None, text, source, far=_CHIP)
    if not supports_work(build, work):
        return Ruling(None, f"{unsupported_text(build.engine, work)}.", source, far=_WORK)
    return _rule_for_format(generation, build, weight_format, work)


def _rule_for_format(generation: Generation, build: Build, weight_format: str, work: Work) -> Ruling:
    """Whether a build multiplies a format on a chip, converts it, or does neither."""
    engine, source, capability = product_name(build.engine), build.source, generation.capability
    named, unit = format_words(weight_format), UNITS.get(weight_format)
    kv = tuple(f for f in build.kv if f not in UNIT_CACHES or UNITS[f] in generation.multiplies)
    if work.precision and UNITS[work.precision] not in generation.multiplies:
        return Ruling(False, _missing_unit_text(generation, engine, work.precision), source, far=_FORMAT)
    if weight_format in build.multiplies and (unit is None or unit in generation.multiplies):
        return Ruling(True, f"{engine} computes in {named} on {generation.name}.", source, True, kv, _FORMAT)
    if weight_format in build.unpacks:
        least = build.unpacks[weight_format]
        if capability is None or capability >= least:
            text = f"{engine} converts {named} to 16 bits before computing on {generation.name}."
            return Ruling(True, text, source, False, kv, _FORMAT)
        needs = f"{engine} requires {least:.1f} or higher for {named}"
        if unit is not None:
            own = f"{named} requires {least_capability(unit):.1f} or higher"
            needs = f"{own}, and {engine} converts it to 16 bits only from {least:.1f}"
        text = f"{{name}} has {generation.name}; {needs}."
        return Ruling(False, text, source, far=_FORMAT)
    if weight_format in build.multiplies:
        return Ruling(False, _missing_unit_text(generation, engine, weight_format), source, far=_FORMAT)
    if unit == "bf16" and unit not in generation.multiplies:
        return Ruling(False, _missing_unit_text(generation, engine, weight_format), source, far=_FORMAT)
    return Ruling(None, f"{engine} has no known support for {named} on {generation.name}.", source, far=_FORMAT)


def _missing_unit_text(generation: Generation, engine: str, weight_format: str) -> str:
    named = format_words(weight_format)
    if generation.capability is not None:
        least = least_capability(UNITS[weight_format])
        return f"{{name}} has {generation.name}; {named} requires {least:.1f} or higher."
    unsupported = f"which does not compute in {named}, and {engine} does not convert it to 16 bits there"
    return f"{{name}} is {generation.name}, {unsupported}."


def _identity_text(generation: Generation) -> str:
    """Predicate that states a generation: "is gfx942", "has compute capability 9.0"."""
    return f"{'has' if generation.name.startswith(CAPABILITY) else 'is'} {generation.name}"


@cache
def _family_generations(family: str) -> tuple[Generation, ...]:
    return tuple(g for g in GENERATIONS if g.family == family)


def _computes_natively(accelerator: Accelerator, weight_format: str) -> bool:
    unit = UNITS.get(weight_format)
    return unit is not None and unit in generation_of(accelerator).multiplies


def find_refusal(
    accelerator: Accelerator, engines: Iterable[str], formats: Iterable[str], work: Work, documents: SupportEvidence
) -> Verdict | None:
    """The verdict that passed the most layers among the allowed engines and formats, or one that supports the work.

    Returns None if there is nothing to judge. Without engines, all engines that support such work on the
    accelerator's runtimes are judged.
    """
    runtimes = set(generation_of(accelerator).runtimes)
    asked = tuple(engines) or tuple(
        name
        for name, builds in BUILDS.items()
        if any(supports_work(b, work) and runtimes & set(b.runtimes) for b in builds)
    )
    found = [verdict(accelerator, engine, f, work, documents) for f in sorted(formats) for engine in asked]
    return max(found, key=lambda v: (v.is_supported, v.far), default=None)


def no_engine_text(accelerator: Accelerator, work: Work) -> str:
    on = " or ".join(RUNTIMES[r].display_name for r in generation_of(accelerator).runtimes)
    if not on:
        return f"The catalog records no software runtime for {accelerator.name}."
    return f"{unsupported_text('', work)} on {on}."
