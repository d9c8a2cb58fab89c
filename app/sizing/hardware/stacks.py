"""Software stacks of a catalog: engines, formats and training frameworks that evidence or rules support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Codes, Columns, Mask, column
from app.sizing.hardware.achieved import RATES, Achieved, format_class
from app.sizing.hardware.engines import engine_named, engine_rank
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.builds import BUILDS, accepted_formats, covers_work
from app.sizing.hardware.support.generations import generation_of
from app.sizing.hardware.support.records import (
    FINE_TUNING,
    FULL,
    LEVELS,
    LORA,
    PRETRAINING,
    QLORA,
    SAMPLES,
    SERVING,
    Level,
    Verdict,
    Work,
)
from app.sizing.hardware.support.rules import (
    SupportEvidence,
    find_refusal,
    keeps_16_bit,
    no_engine_text,
    stored_as,
    verdict,
    work_key,
)
from app.sizing.hardware.tables import (
    HOPPER_WIDTH_MULTIPLE,
    MemoryRules,
    SchedulingColumns,
    Stacks,
    codes,
    flags,
    index_by_name,
)
from app.sizing.model.formats import KV_FORMATS, WEIGHT_FORMATS
from app.sizing.model.tasks import TASKS, ModelTask

# Kinds of model by serving phase.
SERVED: Mapping[str, tuple[ModelTask, ...]] = {
    SERVING: (ModelTask.DECODER,),
    SAMPLES: tuple(t for t in TASKS if t is not ModelTask.DECODER),
}


@dataclass(frozen=True, slots=True)
class Stack:
    """One row of Stacks, by name: software that runs in the same way on some accelerators of a family.

    `levels` is the level of support for each kind of model.
    """

    engine: str
    family: str
    phase: str
    weight_format: str
    native: bool
    kv_formats: tuple[str, ...] = ()
    levels: tuple[Level, ...] = (Level.DOCUMENTED,) * len(TASKS)
    accelerators: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """Engine, family and format class, which select the coefficients."""
        return engine_named(self.engine).base_engine(), self.family, format_class(self.weight_format, self.native)

    @property
    def rate(self) -> str:
        """Rate that its matrix multiplications use, a name of RATES."""
        named = WEIGHT_FORMATS[self.weight_format].rate
        return named if self.native and named in RATES else "16bit"

    @property
    def sort_key(self) -> tuple[int, int, str, str, str, str, bool, tuple[str, ...]]:
        """Sort key: best support first, then the order of engines, then names."""
        surest = max(LEVELS.index(level) for level in self.levels)
        name = self.engine, self.family, self.phase, self.weight_format
        return -surest, engine_rank(self.engine), *name, not self.native, self.accelerators


def all_stacks(accelerators: Sequence[Accelerator], documents: SupportEvidence) -> list[Stack]:
    """Every stack of these accelerators, in order."""
    found = [stack for family in group_by_family(accelerators).values() for stack in _family_stacks(family, documents)]
    return sorted(found, key=lambda s: s.sort_key)


def group_by_family(accelerators: Sequence[Accelerator]) -> dict[str, list[list[Accelerator]]]:
    """Accelerators by family, in groups that software treats alike."""
    found: dict[str, dict[str, list[Accelerator]]] = {}
    for a in accelerators:
        found.setdefault(a.family, {}).setdefault(generation_of(a).name, []).append(a)
    return {family: list(of_family.values()) for family, of_family in found.items()}


def known_engines(alike: Sequence[Accelerator], documents: SupportEvidence) -> list[str]:
    """Engines that a rule or an evidence row mentions for these accelerators."""
    runtimes = set(generation_of(alike[0]).runtimes)
    built = {e for e, builds in BUILDS.items() if any(runtimes & set(b.runtimes) for b in builds)}
    return sorted(built | documents.engines(alike[0].family))


def _family_stacks(generations: Sequence[Sequence[Accelerator]], documents: SupportEvidence) -> Iterator[Stack]:
    alike: dict[Stack, list[str]] = {}
    for of_one in generations:
        for engine in known_engines(of_one, documents):
            for stack in _engine_stacks(of_one[0], engine, documents):
                alike.setdefault(stack, []).extend(a.slug for a in of_one)
    for stack, slugs in alike.items():
        yield Stack(
            stack.engine,
            stack.family,
            stack.phase,
            stack.weight_format,
            stack.native,
            stack.kv_formats,
            stack.levels,
            tuple(sorted(slugs)),
        )


def _engine_stacks(accelerator: Accelerator, engine: str, documents: SupportEvidence) -> Iterator[Stack]:
    for phase, tasks in SERVED.items():
        works = [work for task in tasks if covers_work(engine, work := Work(phase, task=task))]
        taken = dict.fromkeys(f for work in works for f in accepted_formats(engine, work))
        taken |= dict.fromkeys(documents.formats(engine, accelerator.family, phase) if works else ())
        keys = [work_key(engine, work) for work in works]
        one_of_each = dict(zip(keys, works, strict=True))
        for weight_format in (f for f in taken if f in WEIGHT_FORMATS):
            said_of = {key: verdict(accelerator, engine, weight_format, w, documents) for key, w in one_of_each.items()}
            said = {work.task: said_of[key] for work, key in zip(works, keys, strict=True)}
            yield from _stacks_by_variant(engine, accelerator.family, phase, weight_format, said)


def _stacks_by_variant(
    engine: str, family: str, phase: str, weight_format: str, said: Mapping[ModelTask, Verdict]
) -> Iterator[Stack]:
    """One stack for each combination of native or converted computation and KV cache formats."""
    for native, kv in dict.fromkeys((v.native, v.kv_formats) for v in said.values() if v.is_supported):
        own = {task: v.level for task, v in said.items() if (v.native, v.kv_formats) == (native, kv)}
        yield Stack(engine, family, phase, weight_format, native, kv, tuple(own.get(t, Level.REFUSED) for t in TASKS))


def stack_columns(
    stacks: Sequence[Stack],
    achieved: Achieved,
    evidence_stack: Codes,
    unmeasured: Mask,
    *,
    accelerators: Mapping[str, int],
    engines: Mapping[str, int],
    families: Mapping[str, int],
    formats: Mapping[str, int],
    phases: Mapping[str, int],
) -> Stacks:
    """Stacks as columns; the mappings give each name its code."""
    of_engine = [engine_named(s.engine) for s in stacks]
    wide, context = [e.wide_experts for e in of_engine], [e.context_parallel for e in of_engine]
    stored = [WEIGHT_FORMATS[s.weight_format] for s in stacks]
    carries = [s.weight_format in e.formats_with_fp8_cache for s, e in zip(stacks, of_engine, strict=True)]
    levels = np.array([[LEVELS.index(level) for level in s.levels] for s in stacks]).reshape(-1, len(TASKS))
    return Stacks(
        family=codes([families[s.family] for s in stacks]),
        engine=codes([engines[s.engine] for s in stacks]),
        weight_format=codes([formats[s.weight_format] for s in stacks]),
        native=flags([s.native for s in stacks]),
        levels=levels,
        on=_accelerator_mask(stacks, accelerators),
        expected=levels.max(axis=1, initial=0) < LEVELS.index(Level.DOCUMENTED),
        published_recipes=np.zeros(len(stacks)),
        unmeasured=unmeasured,
        named_only=np.array([[t not in e.competes for t in TASKS] for e in of_engine]).reshape(-1, len(TASKS)),
        keeps_kv=np.array([[kv.is_supported_by(s.kv_formats) for kv in KV_FORMATS.values()] for s in stacks]),
        phase=codes([phases[s.phase] for s in stacks]),
        small_engine=flags([e.small for e in of_engine]),
        ggml=flags([e.ggml for e in of_engine]),
        large_image=flags([e.large_image for e in of_engine]),
        pads_heads=flags([e.pads_heads for e in of_engine]),
        host_prefixes=flags([bool(e.host_prefixes) for e in of_engine]),
        pipelines_chunks=flags([bool(e.pipelines_chunks) for e in of_engine]),
        packs=flags([e.packs for e in of_engine]),
        beams=column([e.beams for e in of_engine]),
        rate=codes([RATES.index(s.rate) for s in stacks]),
        wide=flags([w.nominal_bits >= 16 for w in stored]),
        fp8_cache=flags(carries),
        expert_width_multiple=column([_expert_width_multiple(s) for s in stacks]),
        user_converts=np.zeros(len(stacks), bool),
        dispatch_bytes=column([w.dispatch_bytes if w else 0.0 for w in wide]),
        combine_bytes=column([w.combine_bytes if w else 0.0 for w in wide]),
        splits_attention=flags([w is not None and w.splits_attention for w in wide]),
        context_bytes=column([c.exchanged_bytes if c else 0.0 for c in context]),
        latent_contexts=flags([c is not None and c.latent for c in context]),
        evidence_stack=evidence_stack,
        memory=MemoryRules.from_rules([e.memory for e in of_engine]),
        scheduling=SchedulingColumns.from_rules([e.scheduling for e in of_engine], [s.family for s in stacks]),
        achieved=achieved,
    )


# Marlin, FlashInfer; AITER. Others keep the width.
WIDTH_MULTIPLES = {"nvidia_hopper": HOPPER_WIDTH_MULTIPLE, "nvidia": 128, "amd": 256}


def _expert_width_multiple(stack: Stack) -> float:
    """Multiple to which an engine pads the MLP width of MXFP4 experts on a rank; 0 if it keeps weights as stored.

    Source: vLLM 0.33, fused_moe/oracle/mxfp4.py, mxfp4_round_up_hidden_size_and_intermediate_size; SGLang 0.5.23,
    quantization/mxfp4.py.
    """
    if stack.weight_format != "mxfp4" or engine_named(stack.engine).ggml:
        return 0.0
    return WIDTH_MULTIPLES.get(stack.family, WIDTH_MULTIPLES.get(stack.family.partition("_")[0], 1))


def _accelerator_mask(stacks: Sequence[Stack], accelerators: Mapping[str, int]) -> Mask:
    """Mask with a row per stack and a column per accelerator."""
    found = np.zeros((len(stacks), len(accelerators)), dtype=bool)
    for row, stack in enumerate(stacks):
        found[row, [accelerators[slug] for slug in stack.accelerators]] = True
    return found


def competing_mask(on: Mask, expected: Mask, named_only: Mask) -> Mask:
    """Accelerators on which each stack competes if the request names no engines.

    A stack whose support is only expected competes only where no stack is documented. A front of another engine, and
    an engine that people use only on request, competes nowhere.
    """
    sure = on[~expected & ~named_only].any(axis=0)
    found: Mask = on & ~named_only[:, None] & ~(expected[:, None] & sure)
    return found


@dataclass(frozen=True, slots=True)
class Trainers(Columns):
    """Family x framework, with separate rows for documented and for expected support."""

    family: Codes
    engine: Codes
    on: Mask  # accelerators it runs on, a column each
    expected: Mask  # support follows from rules only
    named_only: Mask  # competes only if named

    def separate_types(self, rows: Codes, types: Codes) -> tuple[Trainers, Codes]:
        """Trainers with a row of its own for each pair of a row and an accelerator type, and the pair of each row.

        All other rows have the pair -1.
        """
        rest, own = self.on.copy(), np.zeros((len(rows), self.on.shape[1]), dtype=bool)
        rest[rows, types], own[np.arange(len(rows)), types] = False, True
        left = np.flatnonzero(rest.any(axis=1))
        which, on = np.concatenate([left, rows]), np.concatenate([rest[left], own])
        pair, order = np.concatenate([np.full(len(left), -1), np.arange(len(rows))]), np.argsort(which, kind="stable")
        return replace(self.take(which), on=on).take(order), pair[order]


def training_work(phase: str, method: str, precision: str, task: ModelTask) -> tuple[str, Work]:
    """Weight format and work of training in a precision; the base of QLoRA is stored in NF4.

    Check:
        >>> training_work("fine_tuning", "qlora", "bf16", ModelTask.DECODER)[0]
        'nf4'
    """
    own = stored_as(precision)
    weights, trained_in = ("nf4", own) if method == QLORA else (own, "")
    return weights, Work(phase, method, task, trained_in, keeps_16_bit(precision))


def find_trainers(
    accelerators: Sequence[Accelerator],
    documents: SupportEvidence,
    weight_format: str,
    work: Work,
    *,
    engines: Sequence[str],
    families: Sequence[str],
) -> Trainers:
    """Frameworks for a piece of training work by family, best support first."""
    found: dict[tuple[str, bool, str], list[str]] = {}
    for family, generations in group_by_family(accelerators).items():
        for of_one in generations:
            for engine in known_engines(of_one, documents):
                said = verdict(of_one[0], engine, weight_format, work, documents)
                if said.is_supported:
                    key = family, said.level is Level.EXPECTED, engine
                    found.setdefault(key, []).extend(a.slug for a in of_one)
    rows = sorted(found, key=lambda key: (key[0], key[1], engine_rank(key[2]), key[2]))
    columns, of_family, of_engine = (
        index_by_name([a.slug for a in accelerators]),
        index_by_name(families),
        index_by_name(engines),
    )
    on = np.zeros((len(rows), len(accelerators)), dtype=bool)
    for i, key in enumerate(rows):
        on[i, [columns[slug] for slug in found[key]]] = True
    return Trainers(
        family=codes([of_family[family] for family, _, _ in rows]),
        engine=codes([of_engine[engine] for _, _, engine in rows]),
        on=on,
        expected=flags([expected for _, expected, _ in rows]),
        named_only=flags([engine_named(engine).judged_as is not None for _, _, engine in rows]),
    )


class Software:
    """Support rules and evidence for the accelerators of one catalog."""

    def __init__(
        self,
        accelerators: Sequence[Accelerator],
        documents: SupportEvidence,
        engines: Sequence[str],
        families: Sequence[str],
    ) -> None:
        self.accelerators, self.documents, self.engines, self.families = accelerators, documents, engines, families
        self._trainers: dict[tuple[str, Work], Trainers] = {}
        self._refusals: dict[tuple[int, tuple[str, ...], frozenset[str], Work], str] = {}

    def verdict(self, accelerator: int, engine: str, weight_format: str, work: Work) -> Verdict:
        """Whether an engine supports a piece of work on an accelerator."""
        return verdict(self.accelerators[accelerator], engine, weight_format, work, self.documents)

    def trainers(self, weight_format: str, work: Work) -> Trainers:
        """Frameworks that support a piece of training work."""
        asked = weight_format, work
        if asked not in self._trainers:
            self._trainers[asked] = find_trainers(
                self.accelerators, self.documents, weight_format, work, engines=self.engines, families=self.families
            )
        return self._trainers[asked]

    def refusal_reason(self, accelerator: int, engines: tuple[str, ...], formats: frozenset[str], work: Work) -> str:
        """Text of the rule that excludes a piece of work from an accelerator; empty if no rule does."""
        asked = accelerator, engines, formats, work
        if asked not in self._refusals:
            a = self.accelerators[accelerator]
            found = find_refusal(a, engines, formats, work, self.documents)
            self._refusals[asked] = (
                no_engine_text(a, work) if found is None else "" if found.is_supported else found.rule
            )
        return self._refusals[asked]


# Format of the verdict for an engine that accepts no format for the work.
USUAL = "bf16"
METHODS = {PRETRAINING: (FULL,), FINE_TUNING: (FULL, LORA, QLORA)}


@dataclass(frozen=True, slots=True)
class PairQuery:
    """A support query for an accelerator and an engine; None leaves a field open."""

    accelerator: int
    engine: str
    weight_format: str | None = None
    phase: str | None = None
    method: str | None = None
    task: ModelTask | None = None


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """The verdict for one weight format and kind of work."""

    weight_format: str
    work: Work
    verdict: Verdict


def answer_pair(query: PairQuery, software: Software) -> list[PairVerdict]:
    """Every requested verdict, in order."""
    return [
        PairVerdict(f, work, software.verdict(query.accelerator, query.engine, f, work))
        for work in _requested_works(query)
        for f, work in _requested_formats(query, work, software)
    ]


def _requested_works(query: PairQuery) -> Iterator[Work]:
    for phase in (query.phase,) if query.phase else (SERVING, SAMPLES, PRETRAINING, FINE_TUNING):
        if phase in METHODS:
            for method in (query.method,) if query.method else METHODS[phase]:
                yield Work(phase, method, query.task or ModelTask.DECODER)
        elif not query.method:
            for task in (query.task,) if query.task else SERVED[phase]:
                yield Work(SERVING if task is ModelTask.DECODER else SAMPLES, task=task)


def _requested_formats(query: PairQuery, work: Work, software: Software) -> Iterator[tuple[str, Work]]:
    """Weight formats for a piece of work. Adapters on a quantized base train in the 16-bit format of the chip."""
    accelerator = software.accelerators[query.accelerator]
    if work.method == QLORA:
        wide = "bf16" if "bf16" in generation_of(accelerator).multiplies else "fp16"
        named = None if query.weight_format == "nf4" else query.weight_format
        yield training_work(work.phase, QLORA, named or wide, work.task)
        return
    accepted = dict.fromkeys(accepted_formats(query.engine, work))
    accepted |= dict.fromkeys(software.documents.formats(query.engine, accelerator.family, work.phase))
    for f in (query.weight_format,) if query.weight_format else accepted or (USUAL,):
        yield f, work
