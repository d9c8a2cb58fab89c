"""Options of a comparison and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import Accelerator
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer, Estimate, HostedApi, Level
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load


@dataclass(frozen=True, slots=True)
class Option:
    """A named question. A given deployment is evaluated; without one, the best is recommended."""

    name: str
    question: Question
    deployment: Deployment | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an option: a deployment that meets the requirements, one that does not, or none (`estimate` is None).

    `answer` is the whole recommendation where the option gave no deployment.
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
    def meets_requirements(self) -> bool:
        """Whether the deployment carries the requested load within the limits."""
        if self.estimate is None or not self.estimate.fits or self.estimate.performance is None:
            return False
        return not self.estimate.performance.overloaded

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
        if e is None or e.assurance is None or not self.meets_requirements:
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
        if self.estimate is None:
            nearest = self.answer.rejected[0].text if self.answer is not None and self.answer.rejected else ""
            return f"No deployment meets the requirements. {nearest}".strip()
        if not self.estimate.fits:
            return f"It does not run. {self.estimate.explanation[0].text}"
        return "It does not carry the load within the limits."

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
    """Evaluate the deployment of an option, or recommend one, as /estimate and /recommend do.

    Raises Conflict where /estimate does.
    """
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
