"""What is compared: questions and deployments by name, and what came of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.sizing.estimate import estimate
from app.sizing.hardware.parts import Accelerator
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend
from app.sizing.result import Answer, Estimate, Level
from app.sizing.snapshot import Snapshot
from app.sizing.values.hosted import HostedApi
from app.sizing.workload import InferenceWorkload, Load


@dataclass(frozen=True, slots=True)
class Option:
    """A question by a name of its own; with a deployment that is judged, without one the best is looked for."""

    name: str
    question: Question
    deployment: Deployment | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an option: a deployment that does what was asked, one that does not, or none (`estimate` is None).

    `answer` is the whole recommendation where one was asked for.
    """

    name: str
    question: Question
    estimate: Estimate | None
    accelerator: Accelerator | None
    answer: Answer | None = None

    @property
    def fits(self) -> bool:
        """Whether there is a deployment that runs at all."""
        return self.estimate is not None and self.estimate.fits

    @property
    def does_it(self) -> bool:
        """Whether it carries what was asked, within the limits."""
        if self.estimate is None or not self.estimate.fits or self.estimate.performance is None:
            return False
        return not self.estimate.performance.overloaded

    @property
    def ends(self) -> bool:
        """Whether the work is done some day: it costs a sum, not so much an hour."""
        workload = self.question.workload
        return not isinstance(workload, InferenceWorkload) or workload.ends

    @property
    def usd(self) -> float | None:
        """What it costs: in all where it ends, else per hour; None where it does not run or nobody prices it."""
        if not self.fits or self.estimate is None or self.estimate.cost is None:
            return None
        cost = self.estimate.cost
        return cost.usd_total if self.ends else cost.usd_per_hour

    @property
    def reserve(self) -> Level | None:
        """What it would take to do it with the confidence and the reserve that a recommendation is sized for, where
        that is more than it has.
        """
        e = self.estimate
        if e is None or e.assurance is None or not self.does_it:
            return None
        level = next((v for v in e.assurance.by_level if v.confidence == e.assurance.asked), None)
        if level is None or level.total_accelerators is None:
            return None
        return level if level.total_accelerators > (e.deployment.total_accelerators or 0) else None

    @property
    def why_not(self) -> str | None:
        """Why it does not do what was asked; None where it does."""
        if self.does_it:
            return None
        if self.estimate is None:
            nearest = self.answer.rejected[0].text if self.answer is not None and self.answer.rejected else ""
            return f"Nothing does what was asked. {nearest}".strip()
        if not self.estimate.fits:
            return f"It does not run. {self.estimate.explanation[0].text}"
        return "It does not carry the load within the limits."

    @property
    def hosted_api(self) -> HostedApi | None:
        """The same traffic at somebody who hosts the model."""
        if self.answer is not None:
            return self.answer.hosted_api
        return None if self.estimate is None else self.estimate.hosted_api

    @property
    def peak_per_s(self) -> float | None:
        """Requests or samples per second that are asked for; None of other loads."""
        workload = self.question.workload
        if isinstance(workload, InferenceWorkload) and workload.load is Load.OPEN and not workload.ends:
            return workload.peak_per_s
        return None


def outcome_of(option: Option, market: Snapshot) -> Outcome:
    """Judge or look for a deployment, as /estimate and /recommend do. Raises Conflict where /estimate does."""
    question = replace(option.question, assumptions=option.question.assumptions.noted())
    if option.deployment is not None:
        found = estimate(question, option.deployment, market)
        accelerator = market.accelerators[market.accelerator_index[found.deployment.accelerator]]
        return Outcome(option.name, question, found, accelerator)
    answer = recommend(question, market)
    if not answer.recommendations:
        return Outcome(option.name, question, None, None, answer)
    first = answer.recommendations[0]
    return Outcome(option.name, question, first.estimate, first.accelerator, answer)
