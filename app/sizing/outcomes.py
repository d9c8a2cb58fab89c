"""Evaluates one option of a comparison: its deployment, or the best one that is found for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.sizing.columns import SECONDS_PER_DAY
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import Accelerator
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer, Estimate, HostedApi, Level
from app.sizing.snapshot import Catalog
from app.sizing.words import format_duration
from app.sizing.workload import InferenceWorkload, Load
from app.work import WorkLimitReached, add_work

# Work of one comparison, in milliseconds of CPU time, about: the most, and that of an option besides its search.
MOST_WORK, WORK_PER_OPTION = 1850.0, 20.0
LEFT_OUT = "Not evaluated: the options took all the work of one comparison. Ask for this option alone."


@dataclass(frozen=True, slots=True)
class Option:
    """A named question. A given deployment is evaluated; without one, the best is recommended."""

    name: str
    question: Question
    deployment: Deployment | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an option: a deployment that meets the requirements, one that does not, or none (`estimate` is None).

    `answer` is the whole recommendation where the option gave no deployment. An option that was `left_out` was not
    evaluated, because the others took all work of one comparison.
    """

    name: str
    question: Question
    estimate: Estimate | None
    accelerator: Accelerator | None
    answer: Answer | None = None
    left_out: bool = False

    @property
    def fits(self) -> bool:
        """Whether there is a deployment that runs at all."""
        return self.estimate is not None and self.estimate.fits

    @property
    def carries_load(self) -> bool:
        """Whether the deployment carries the requested load within the latency limits."""
        if self.estimate is None or not self.estimate.fits or self.estimate.performance is None:
            return False
        return not self.estimate.performance.overloaded

    @property
    def missed_deadline(self) -> str | None:
        """How the expected duration misses the deadline, as text; None where it does not."""
        limit_s, p = self.question.workload.deadline_s, None if self.estimate is None else self.estimate.performance
        if limit_s is None or p is None or p.days is None or p.days * SECONDS_PER_DAY <= limit_s:
            return None
        allowed = format_duration(limit_s / SECONDS_PER_DAY)
        return f"takes {format_duration(p.days)}, longer than the deadline of {allowed}"

    @property
    def meets_requirements(self) -> bool:
        """Whether the deployment carries the requested load within the limits, or ends before the deadline."""
        return self.carries_load and self.missed_deadline is None

    @property
    def has_an_end(self) -> bool:
        """Whether the work has an end, so that its cost is a total instead of a rate per hour."""
        workload = self.question.workload
        return not isinstance(workload, InferenceWorkload) or workload.is_finite

    @property
    def usd(self) -> float | None:
        """Cost: USD in total for work with an end, else USD/h; None where it does not run or the price is unknown."""
        if not self.fits or self.estimate is None or self.estimate.cost is None:
            return None
        cost = self.estimate.cost
        return cost.usd_total if self.has_an_end else cost.usd_per_hour

    @property
    def level_with_reserve(self) -> Level | None:
        """Size of this deployment at the requested confidence and headroom, where it is larger than the deployment."""
        e = self.estimate
        if e is None or e.assurance is None or not self.carries_load:
            return None
        level = next((v for v in e.assurance.by_level if v.confidence == e.assurance.asked), None)
        if level is None or level.total_accelerators is None:
            return None
        return level if level.total_accelerators > (e.deployment.total_accelerators or 0) else None

    @property
    def why_not(self) -> str | None:
        """Why the outcome does not meet the requirements; None where it does."""
        if self.meets_requirements:
            return None
        if self.left_out:
            return LEFT_OUT
        if self.estimate is None:
            nearest = self.answer.rejected[0].text if self.answer is not None and self.answer.rejected else ""
            return f"No deployment meets the requirements. {nearest}".strip()
        if not self.estimate.fits:
            return f"It does not run. {self.estimate.explanation[0].text}"
        return f"It {self.missed_deadline}." if self.carries_load else "It does not carry the load within the limits."

    @property
    def hosted_api(self) -> HostedApi | None:
        """The same traffic served by hosts of the model."""
        if self.answer is not None:
            return self.answer.hosted_api
        return None if self.estimate is None else self.estimate.hosted_api

    @property
    def peak_per_s(self) -> float | None:
        """Requested requests or samples per second of an open load; None for other loads."""
        workload = self.question.workload
        if isinstance(workload, InferenceWorkload) and workload.load is Load.OPEN and not workload.is_finite:
            return workload.peak_per_s
        return None


def evaluate_option(option: Option, catalog: Catalog) -> Outcome:
    """Evaluate the deployment of an option, or recommend one, as /estimate and /recommend do. Where no work is left for
    it in the account of the comparison, it is left out.

    Raises Conflict where /estimate does.
    """
    try:
        return evaluate_whole_option(option, catalog)
    except WorkLimitReached:
        return Outcome(option.name, option.question, None, None, left_out=True)


def evaluate_whole_option(option: Option, catalog: Catalog) -> Outcome:
    """Evaluate an option. Raises WorkLimitReached, and Conflict where /estimate does."""
    workload = option.question.workload
    add_work(WORK_PER_OPTION * len((isinstance(workload, InferenceWorkload) and workload.classes) or (0,)))
    question = replace(option.question, assumptions=option.question.assumptions.with_recording())
    if option.deployment is not None:
        found = estimate_deployment(question, option.deployment, catalog)
        accelerator = catalog.accelerators[catalog.accelerator_index[found.deployment.accelerator]]
        return Outcome(option.name, question, found, accelerator)
    answer = recommend_hardware(question, catalog)
    if not answer.recommendations:
        return Outcome(option.name, question, None, None, answer)
    first = answer.recommendations[0]
    return Outcome(option.name, question, first.estimate, first.accelerator, answer)
