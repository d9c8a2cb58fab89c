"""Diagnosis of a deployment: estimate it, run all checks, drop findings that follow from others, and rank the rest by
cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.errors import Conflict
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import GIB
from app.sizing.diagnosis import devices, memory, service, training
from app.sizing.diagnosis.case import Case, Observations, build_case
from app.sizing.diagnosis.coverage import observed_values, unjudged_quantities
from app.sizing.diagnosis.findings import Finding
from app.sizing.diagnosis.memory import MemoryTerm, memory_terms
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.words import format_count, format_number
from app.sizing.workload import InferenceWorkload

SERVICE_CHECKS = (*service.LOAD_CHECKS, *service.LATENCY_CHECKS, *service.CACHE_CHECKS, *service.CURVE_CHECKS)
TRAINING_CHECKS = (*training.STEP_CHECKS, *training.INTERRUPTION_CHECKS, *training.SCALING_CHECKS)
COMMON_CHECKS = (*training.LAYOUT_CHECKS, training.find_high_memory, *memory.CHECKS, *devices.CHECKS)
# Checks that need no expected performance.
MEMORY_CHECKS = (*memory.CHECKS, devices.find_heat, devices.find_device_errors)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings in descending order of cost."""

    summary: str
    findings: tuple[Finding, ...]
    expected: Estimate
    assumptions: tuple[Assumed, ...]
    not_judged: tuple[str, ...] = ()  # observed quantities about which the diagnosis says nothing
    healthy: bool | None = None  # None if nothing was judged
    memory: tuple[MemoryTerm, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def not_to_buy(self) -> tuple[str, ...]:
        """Purchases that would not fix any of the findings."""
        return tuple(dict.fromkeys(f.do_not_buy for f in self.findings if f.do_not_buy))


def diagnose(question: Question, deployment: Deployment, catalog: Catalog, observed: Observations) -> Diagnosis:
    """Diagnose a running deployment.

    A deployment that is not expected to fit is judged as if it fitted, because it runs. Raises Conflict for two pools.
    """
    if deployment.pools is not None:
        raise Conflict("Pools for prefill and decode cannot be diagnosed together. Send the deployment of one pool.")
    case = build_case(question, deployment, catalog, observed)
    checks = SERVICE_CHECKS if isinstance(question.workload, InferenceWorkload) else TRAINING_CHECKS
    looks = MEMORY_CHECKS if case.expected_performance is None else (*checks, *COMMON_CHECKS)
    causes = rank_findings([found for look in looks for found in look(case)], case.assumptions)
    touched_assumptions = tuple(
        a for a in case.assumptions.with_recording().used_assumptions() if a.name.startswith("diagnosed_")
    )
    unjudged = unjudged_quantities(case, causes)
    judged = {name for name, _ in observed_values(case)} - set(unjudged)
    healthy = None if not judged and not causes else not causes
    return Diagnosis(
        summarize_findings(causes, judged=bool(judged)),
        causes,
        case.expected_estimate,
        touched_assumptions,
        unjudged,
        healthy,
        memory_terms(case),
        tuple(contradiction_notes(case)),
    )


def contradiction_notes(case: Case) -> Iterator[str]:
    """What the observations contradict: the deployment was not expected to run."""
    short, needed = case.short_estimate, None if case.short_estimate is None else case.short_estimate.memory
    was_killed = case.memory.failed_host_bytes is not None
    if short is not None and needed is not None and not case.ran_out_of_memory and not was_killed:
        yield (
            f"The deployment runs, but was not expected to fit: it needs {format_number(needed.total_bytes / GIB)} of "
            f"{format_number(needed.usable_bytes / GIB)} GiB usable according to the estimate. It is judged as if it "
            "fitted."
        )
    elif short is None and case.expected_performance is None:
        yield (
            "The deployment was not expected to run, so there are no expected values: "
            f"{case.expected_estimate.explanation[0].text}"
        )


def rank_findings(findings: Sequence[Finding], assumed: Assumptions) -> tuple[Finding, ...]:
    """Findings that no other finding explains, in descending order of cost; findings of unknown cost come last.

    A finding that others explain in part keeps only the rest of its cost.
    """
    remaining = [left for found in findings if (left := remaining_finding(found, findings, assumed)) is not None]
    return tuple(sorted(remaining, key=lambda f: (-f.known_cost_share, f.code)))


def remaining_finding(finding: Finding, findings: Sequence[Finding], assumed: Assumptions) -> Finding | None:
    """The part of a finding that its causes do not explain; None if nothing is left.

    Nothing is left if the finding follows from another one, or if others account for enough of it. Two findings that
    explain each other are both kept.
    """
    claimed = (*finding.explains, *finding.accounts_for)
    causes = [
        other for other in findings if other is not finding and other.known_cost_share > 0 and other.code not in claimed
    ]
    if any(finding.code in other.explains for other in causes):
        return None
    accounted = sum(other.known_cost_share for other in causes if finding.code in other.accounts_for)
    if not accounted or finding.share is None:
        return finding
    remaining_share, slower = finding.share - accounted, assumed.diagnosed_slower_share
    if remaining_share <= finding.share / 2 and remaining_share < slower / (1 + slower):
        return None
    return replace(
        finding, share=remaining_share, gain=None if finding.gain is None else min(finding.gain, remaining_share)
    )


def summarize_findings(findings: Sequence[Finding], *, judged: bool = True) -> str:
    """The diagnosis in a few sentences: the most expensive finding, its change and its cost."""
    if not findings and not judged:
        return "No observed value can be compared with an expected one."
    if not findings:
        return "All judged values are within the range expected of this hardware."
    first = findings[0]
    others = "" if len(findings) == 1 else f" {format_count(len(findings) - 1, 'further finding')}."
    cost = "The loss is unknown." if first.share is None else f"Estimated loss: {format_number(100 * first.share)} %."
    return f"{first.text} {first.change} {cost}{others}"
