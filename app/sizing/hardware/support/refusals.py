"""The rule that excludes a piece of work from an accelerator; of several rules, the one that is reached last."""

from __future__ import annotations

from collections.abc import Iterable

from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.builds import BUILDS, supports_work
from app.sizing.hardware.support.generations import RUNTIMES, generation_of
from app.sizing.hardware.support.records import Verdict, Work
from app.sizing.hardware.support.verdicts import SupportEvidence, verdict
from app.sizing.hardware.support.words import unsupported_text


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
    """Text for work that no engine supports on any runtime of the accelerator."""
    on = " or ".join(RUNTIMES[r].display_name for r in generation_of(accelerator).runtimes)
    if not on:
        return f"The catalog records no software runtime for {accelerator.name}."
    return f"{unsupported_text('', work)} on {on}."
