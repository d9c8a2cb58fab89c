"""Training frameworks that evidence or rules support for a piece of work, and the accelerators they run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Columns, Mask
from app.sizing.hardware.engines import engine_named, engine_rank
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.stacks import group_by_family, known_engines
from app.sizing.hardware.support.formats import keeps_16_bit, stored_as
from app.sizing.hardware.support.records import QLORA, Level, Work
from app.sizing.hardware.support.verdicts import SupportEvidence, verdict
from app.sizing.hardware.tables import codes, flags, index_by_name
from app.sizing.model.tasks import ModelTask


@dataclass(frozen=True, slots=True)
class Trainers(Columns):
    """Family x framework, with separate rows for documented and for expected support."""

    family: Codes
    engine: Codes
    on: Mask  # accelerators it runs on, a column each
    expected: Mask  # support follows from rules only
    named_only: Mask  # competes only if named


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
