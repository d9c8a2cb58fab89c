"""Diagnosis of a deployment: estimate it, run all checks, drop findings that follow from others, and rank the rest by
cost.
"""

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
from app.sizing.snapshot import Catalog
from app.sizing.words import counted, figure
from app.sizing.workload import InferenceWorkload

OF_SERVICES = (*load.FINDINGS, *waiting.FINDINGS, *room.FINDINGS, *knee.FINDINGS)
OF_RUNS = (*step.FINDINGS, *interruptions.FINDINGS, *scaling.FINDINGS)
OF_BOTH = (*layout.FINDINGS, *devices.FINDINGS)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings in descending order of cost."""

    summary: str
    findings: tuple[Finding, ...]
    expected: Estimate
    assumptions: tuple[Assumed, ...]
    not_judged: tuple[str, ...] = ()  # observed quantities that have no expected value

    @property
    def not_to_buy(self) -> tuple[str, ...]:
        """Purchases that would not fix any of the findings."""
        return tuple(dict.fromkeys(f.do_not_buy for f in self.findings if f.do_not_buy))


def diagnose(question: Question, deployment: Deployment, market: Catalog, observed: Observed) -> Diagnosis:
    """Diagnose a running deployment.

    Raises Conflict if the deployment cannot run at all or cannot be diagnosed.
    """
    if deployment.pools is not None:
        raise Conflict("Pools for prefill and decode cannot be diagnosed together. Send the deployment of one pool.")
    case = case_of(question, deployment, market, observed)
    if not case.expected_estimate.fits:
        raise Conflict(
            f"The observations cannot come from this deployment: it does not run. {case.expected_estimate.explanation[0].text}"
        )
    own = OF_SERVICES if isinstance(question.workload, InferenceWorkload) else OF_RUNS
    causes = ranked([found for look in (*own, *OF_BOTH) for found in look(case)], case.assumed)
    touched_assumptions = tuple(a for a in case.assumed.noted().touched() if a.name.startswith("diagnosed_"))
    return Diagnosis(summary(causes), causes, case.expected_estimate, touched_assumptions, not_judged(case))


def ranked(every: Sequence[Finding], assumed: Assumptions) -> tuple[Finding, ...]:
    """Findings that no other finding explains, in descending order of cost; findings of unknown cost come last.

    A finding that others explain in part keeps only the rest of its cost.
    """
    remaining = [left for found in every if (left := unexplained(found, every, assumed)) is not None]
    return tuple(sorted(remaining, key=lambda f: (-f.cost, f.code)))


def unexplained(finding: Finding, every: Sequence[Finding], assumed: Assumptions) -> Finding | None:
    """The part of a finding that its causes do not explain; None if nothing is left.

    Nothing is left if the finding follows from another one, or if others account for enough of it. Two findings that
    explain each other are both kept.
    """
    claimed = (*finding.explains, *finding.accounts_for)
    causes = [other for other in every if other is not finding and other.cost > 0 and other.code not in claimed]
    if any(finding.code in other.explains for other in causes):
        return None
    accounted = sum(other.cost for other in causes if finding.code in other.accounts_for)
    if not accounted or finding.share is None:
        return finding
    remaining_share, slower = finding.share - accounted, assumed.diagnosed_slower_share
    if remaining_share <= finding.share / 2 and remaining_share < slower / (1 + slower):
        return None
    return replace(finding, share=remaining_share, gain=None if finding.gain is None else min(finding.gain, remaining_share))


def summary(causes: Sequence[Finding]) -> str:
    """The diagnosis in a few sentences: the most expensive finding, its change and its cost."""
    if not causes:
        return "All observed values are within the range expected of this hardware."
    first = causes[0]
    others = "" if len(causes) == 1 else f" {counted(len(causes) - 1, 'further finding')}."
    cost = "The loss is unknown." if first.share is None else f"Estimated loss: {figure(100 * first.share)} %."
    return f"{first.text} {first.change} {cost}{others}"
