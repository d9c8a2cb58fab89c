"""A diagnosis in reading order: what is expected, what is found, what of it is only a consequence, what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.errors import Conflict
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.diagnosis import devices, interruptions, knee, layout, load, room, scaling, step, waiting
from app.sizing.diagnosis.case import Finding, case_of, not_judged
from app.sizing.diagnosis.observed import Observed
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.snapshot import Snapshot
from app.sizing.words import counted, figure
from app.sizing.workload import InferenceWorkload

OF_SERVICES = (*load.FINDINGS, *waiting.FINDINGS, *room.FINDINGS, *knee.FINDINGS)
OF_RUNS = (*step.FINDINGS, *interruptions.FINDINGS, *scaling.FINDINGS)
OF_BOTH = (*layout.FINDINGS, *devices.FINDINGS)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings, the dearest first."""

    summary: str
    findings: tuple[Finding, ...]
    expected: Estimate
    assumptions: tuple[Assumed, ...]
    not_judged: tuple[str, ...] = ()  # of what was observed

    @property
    def not_to_buy(self) -> tuple[str, ...]:
        """What would help none of it."""
        return tuple(dict.fromkeys(f.do_not_buy for f in self.findings if f.do_not_buy))


def diagnose(question: Question, deployment: Deployment, market: Snapshot, observed: Observed) -> Diagnosis:
    """What is wrong with what runs. Raises Conflict for what cannot run at all, or cannot be told."""
    if deployment.pools is not None:
        raise Conflict("Pools of prefill and decode are not diagnosed together: give the deployment of one of them.")
    case = case_of(question, deployment, market, observed)
    if not case.found.fits:
        raise Conflict(
            f"What was observed cannot be this deployment: it does not run. {case.found.explanation[0].text}"
        )
    own = OF_SERVICES if isinstance(question.workload, InferenceWorkload) else OF_RUNS
    causes = ranked([found for look in (*own, *OF_BOTH) for found in look(case)], case.assumed)
    told = tuple(a for a in case.assumed.noted().touched() if a.name.startswith("diagnosed_"))
    return Diagnosis(summary(causes), causes, case.found, told, not_judged(case))


def ranked(every: Sequence[Finding], assumed: Assumptions) -> tuple[Finding, ...]:
    """What no other finding is the cause of, the dearest first; what nobody knows the cost of last. Of what others
    account for in part, the rest.
    """
    kept = [left for found in every if (left := unexplained(found, every, assumed)) is not None]
    return tuple(sorted(kept, key=lambda f: (-f.cost, f.code)))


def unexplained(found: Finding, every: Sequence[Finding], assumed: Assumptions) -> Finding | None:
    """What is left of a finding beside its causes: none where it follows from another, or where others account for
    enough of it. Two that would explain one another are both told.
    """
    claimed = (*found.explains, *found.accounts_for)
    causes = [other for other in every if other is not found and other.cost > 0 and other.code not in claimed]
    if any(found.code in other.explains for other in causes):
        return None
    accounted = sum(other.cost for other in causes if found.code in other.accounts_for)
    if not accounted or found.share is None:
        return found
    left, slower = found.share - accounted, assumed.diagnosed_slower_share
    if left <= found.share / 2 and left < slower / (1 + slower):
        return None
    return replace(found, share=left, gain=None if found.gain is None else min(found.gain, left))


def summary(causes: Sequence[Finding]) -> str:
    """The diagnosis in a sentence or two."""
    if not causes:
        return "Nothing is out of what is expected of this hardware."
    first = causes[0]
    others = "" if len(causes) == 1 else f" {counted(len(causes) - 1, 'further finding')}."
    cost = "What it costs is not known." if first.share is None else f"It costs {figure(100 * first.share)} %."
    return f"{first.text} {first.change} {cost}{others}"
