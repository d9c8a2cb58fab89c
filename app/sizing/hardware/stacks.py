"""Software stacks of a catalog: every engine, family and format that evidence or rules support, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Mask, column
from app.sizing.hardware.achieved import RATES, Achieved, format_class
from app.sizing.hardware.engines import engine_named, engine_rank
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.builds import BUILDS, accepted_formats, covers_work
from app.sizing.hardware.support.generations import generation_of
from app.sizing.hardware.support.records import LEVELS, SAMPLES, SERVING, Level, Verdict, Work
from app.sizing.hardware.support.verdicts import SupportEvidence, verdict
from app.sizing.hardware.tables import MemoryRules, SchedulingColumns, Stacks, codes, flags
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
        for weight_format in (f for f in taken if f in WEIGHT_FORMATS):
            said = {w.task: verdict(accelerator, engine, weight_format, w, documents) for w in works}
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
    carries = [
        w.checkpoint_kv == "fp8" or (w.name == "fp8" and e.fp8_checkpoints_cache_fp8)
        for w, e in zip(stored, of_engine, strict=True)
    ]
    levels = np.array([[LEVELS.index(level) for level in s.levels] for s in stacks]).reshape(-1, len(TASKS))
    return Stacks(
        family=codes([families[s.family] for s in stacks]),
        engine=codes([engines[s.engine] for s in stacks]),
        weight_format=codes([formats[s.weight_format] for s in stacks]),
        native=flags([s.native for s in stacks]),
        levels=levels,
        on=_accelerator_mask(stacks, accelerators),
        expected=levels.max(axis=1, initial=0) < LEVELS.index(Level.DOCUMENTED),
        named_only=np.array([[t not in e.competes for t in TASKS] for e in of_engine]).reshape(-1, len(TASKS)),
        keeps_kv=np.array([[kv.is_supported_by(s.kv_formats) for kv in KV_FORMATS.values()] for s in stacks]),
        phase=codes([phases[s.phase] for s in stacks]),
        small_engine=flags([e.small for e in of_engine]),
        ggml=flags([e.ggml for e in of_engine]),
        large_image=flags([e.large_image for e in of_engine]),
        pads_heads=flags([e.pads_heads for e in of_engine]),
        packs=flags([e.packs for e in of_engine]),
        rate=codes([RATES.index(s.rate) for s in stacks]),
        wide=flags([w.nominal_bits >= 16 for w in stored]),
        fp8_cache=flags(carries),
        padded_experts=flags([w.name == "mxfp4" for w in stored]),
        dispatch_bytes=column([w.dispatch_bytes if w else 0.0 for w in wide]),
        combine_bytes=column([w.combine_bytes if w else 0.0 for w in wide]),
        context_bytes=column([c.exchanged_bytes if c else 0.0 for c in context]),
        latent_contexts=flags([c is not None and c.latent for c in context]),
        evidence_stack=evidence_stack,
        memory=MemoryRules.from_rules([e.memory for e in of_engine]),
        scheduling=SchedulingColumns.from_rules([e.scheduling for e in of_engine], [s.family for s in stacks]),
        achieved=achieved,
    )


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
