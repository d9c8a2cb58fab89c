"""Which rule keeps a piece of work from an accelerator: of all that keep it the one that comes last."""

from __future__ import annotations

from collections.abc import Iterable

from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.builds import BUILDS, does
from app.sizing.hardware.support.generations import RUNTIMES, generation_of
from app.sizing.hardware.support.records import Verdict, Work
from app.sizing.hardware.support.verdicts import Documents, verdict
from app.sizing.hardware.support.words import not_done


def refusal(
    accelerator: Accelerator, engines: Iterable[str], formats: Iterable[str], work: Work, documents: Documents
) -> Verdict | None:
    """The verdict that came farthest among engines and formats that may be used, or one that runs; None where there is
    nothing to ask. Without engines it is asked of all that do such work on the accelerator's runtimes.
    """
    runtimes = set(generation_of(accelerator).runtimes)
    asked = tuple(engines) or tuple(
        name for name, builds in BUILDS.items() if any(does(b, work) and runtimes & set(b.runtimes) for b in builds)
    )
    found = [verdict(accelerator, engine, f, work, documents) for f in sorted(formats) for engine in asked]
    return max(found, key=lambda v: (v.runs, v.far), default=None)


def without_engines(accelerator: Accelerator, work: Work) -> str:
    """What to say where no engine does such work on any of an accelerator's runtimes."""
    on = " or ".join(RUNTIMES[r].words for r in generation_of(accelerator).runtimes)
    return f"{not_done('', work)} on {on}, as far as is known." if on else f"No runtime is known of {accelerator.name}."
