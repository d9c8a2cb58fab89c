"""Schemas of POST /compare: named options and their differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, model_validator

from app.api.schemas.answers import AssumedShown, DeploymentShown
from app.api.schemas.base import (
    BottleneckName,
    Name,
    ObjectiveName,
    PrintableText,
    RequestModel,
    ResponseModel,
    round_value,
    with_examples,
)
from app.api.schemas.model import ModelReference
from app.api.schemas.origins import ADDED, EMPTY, From, ResultModel
from app.api.schemas.requests import (
    AS_OF,
    LABEL,
    REFERENCE,
    AsOf,
    ConstraintsSpec,
    DeploymentSpec,
    EconomicsSpec,
    Overrides,
    WorkloadSpec,
    load_example,
)
from app.api.schemas.results import WorkloadOfPhase
from app.sizing.compare import (
    Cause,
    Comparison,
    Crossover,
    Difference,
    OtherHardware,
    Priority,
    Spending,
    SpendingPath,
    TableLine,
)
from app.sizing.outcomes import Outcome
from app.sizing.result import Level

MAX_OPTIONS = 8
SHOWN_EVERY_MONTHS = 3
Part = dict[str, Any]


class OptionSpec(RequestModel):
    """One option: a deployment to estimate, or constraints for a recommendation."""

    name: Annotated[Name, Field(max_length=60)]
    deployment: DeploymentSpec | None = Field(
        None, description="Evaluated as by /estimate. If omitted, the option is evaluated as by /recommend."
    )
    workload: Part = Field({}, description="Changes to the shared workload: members replace, null removes.")
    constraints: Part = Field({}, description="Changes to the shared constraints. With a deployment, only confidence.")
    objective: ObjectiveName | None = None


class PhasesSpec(RequestModel):
    """One model in several phases; each phase has its workload without phase and model."""

    training: WorkloadOfPhase | None = None
    fine_tuning: WorkloadOfPhase | None = None
    inference: WorkloadOfPhase | None = None


class CompareRequest(RequestModel):
    """Either `workload` and `options`, or `model` and `phases`."""

    model_config = with_examples(load_example("compare-llama-70b"), load_example("compare-phases-8b"))

    workload: WorkloadSpec | None = None
    options: Annotated[list[OptionSpec], Field(min_length=2, max_length=MAX_OPTIONS)] | None = None
    model: ModelReference | None = None
    phases: PhasesSpec | None = None
    constraints: ConstraintsSpec = Field(
        ConstraintsSpec(), description="Constraints of all options; for deployments, only confidence."
    )
    objective: ObjectiveName = "cost"
    economics: EconomicsSpec = EconomicsSpec()
    assumptions: Overrides = {}
    as_of: AsOf | None = Field(None, description=AS_OF)
    label: PrintableText | None = Field(
        None, description=f"{LABEL} Label, reference and cost center apply to every stored option."
    )
    reference: PrintableText | None = Field(None, description=REFERENCE)
    cost_centre: PrintableText | None = None

    @model_validator(mode="after")
    def _check_form(self) -> CompareRequest:
        by_options, by_phases = (self.workload, self.options), (self.model, self.phases)
        if None in by_options and None in by_phases:
            raise ValueError("set workload and options (two to eight), or model and phases (two or three)")
        if any(by_options) and any(by_phases):
            raise ValueError("set either workload and options, or model and phases, not both")
        if self.phases is not None and len(self.phases.model_fields_set) < 2:
            raise ValueError("phases: set at least two of training, fine_tuning and inference")
        if self.options is not None and len({o.name for o in self.options}) < len(self.options):
            raise ValueError("options: use a unique name for every option")
        return self


class ReserveShown(ResultModel, of=Level):
    """Accelerators and cost including the reserve."""

    model_config = with_examples({"total_accelerators": 16, "usd_per_hour": 48.2})

    total_accelerators: int
    usd_per_hour: float | None = None


def _runs(outcome: Outcome) -> bool:
    return outcome.accelerator is not None and outcome.estimate is not None


class OutcomeShown(ResultModel, of=Outcome):
    """Result of one option."""

    name: str
    does_it: Annotated[bool, From("meets_requirements")] = Field(
        description="True if it runs and serves the workload within the limits."
    )
    fits: bool
    id: Annotated[str | None, ADDED] = Field(
        None, description="ID of the stored recommendation, if the option has no deployment."
    )
    accelerator: Annotated[str | None, From("accelerator.slug", when=_runs)] = None
    bottleneck: Annotated[BottleneckName | None, From("estimate.bottleneck", when=_runs)] = None
    deployment: Annotated[DeploymentShown | None, From("estimate.deployment", when=_runs)] = None
    with_reserve: Annotated[ReserveShown | None, From("level_with_reserve")] = Field(
        None, description="Needs with the reserve of a recommendation, if the option has less."
    )
    why_not: str | None = None


class ComparedLineShown(ResultModel, of=TableLine):
    """One quantity for all options, in their order."""

    quantity: str
    unit: str
    values: list[float | None] = Field(description="One value per option, in their order.")
    best: Annotated[str | None, From(null=True)] = Field(
        None, description="Best option among those that meet the requirements; null if they are equal."
    )


class CauseShown(ResultModel, of=Cause):
    """One cause of a difference."""

    code: str = Field(description="Cause: price, speed, room, idle or work.")
    ratio: float = Field(description="Factor of this cause; the factors multiply to the ratio of the difference.")
    text: str


class DifferenceShown(ResultModel, of=Difference):
    """Extra cost of an option over the cheapest option that meets the requirements."""

    name: str
    compared_with: Annotated[str, From("baseline")]
    quantity: str
    ratio: float
    causes: list[CauseShown]


class MonthShown(ResponseModel):
    """Cumulative payments up to a month."""

    month: int
    usd: float


def _shown_months(usd: Sequence[float]) -> list[Part]:
    """Cumulative payments after every third month and after the last."""
    return [
        {"month": month, "usd": round_value(paid)}
        for month, paid in enumerate(usd)
        if month % SHOWN_EVERY_MONTHS == 0 or month == len(usd) - 1
    ]


class PathShown(ResultModel, of=SpendingPath):
    """One way to acquire the machines, month by month."""

    way: str = Field(description="Way to acquire: on_demand, committed_1y, committed_3y, spot, owned or hosted_api.")
    provider: str
    months: Annotated[list[MonthShown], From("usd", convert=_shown_months)] = Field(
        description="Cumulative payments by month."
    )
    left_usd: float = Field(description="Resale value of owned machines at the end.")
    left_basis: Annotated[str | None, From(omit=EMPTY)] = Field(
        None, description="Recorded sales that the resale value follows; absent where it follows the assumption."
    )
    committed_usd: float = Field(description="Remaining payments of a commitment at the end.")
    net_usd: float = Field(description="Payments plus commitments, minus the resale value.")


class OvertakingShown(ResultModel, of=Crossover):
    """When one way to pay becomes cheaper than another."""

    way: str
    overtakes: str
    month: Annotated[float, From(decimals=1)] = Field(
        description="Month from which it has cost less, excluding resale."
    )


class SpendingShown(ResultModel, of=Spending):
    """Cumulative cost of each way to acquire an option's machines, the cheapest at the end first."""

    name: str
    ways: Annotated[list[PathShown], From("paths")]
    overtakes: Annotated[list[OvertakingShown], From("crossovers")]


class PriorityShown(ResultModel, of=Priority):
    """The resource that decides in one phase."""

    phase: Annotated[str, From("name")]
    chosen_by: str
    memory_shares: Annotated[dict[str, float], From(digits=3)]
    text: str


class ElsewhereShown(ResultModel, of=OtherHardware):
    """One phase on the accelerator that another phase uses."""

    phase: Annotated[str, From("name")]
    on_that_of: Annotated[str, From("on")]
    accelerator: str
    usd: float | None
    times: float | None = Field(
        description="Cost relative to the phase's own accelerator; null if it does not run there."
    )
    text: str


class CompareResponse(ResultModel, of=Comparison):
    """Comparison of the options."""

    catalog: Annotated[dict[str, str], ADDED]
    as_of: Annotated[str, ADDED]
    summary: str
    options: Annotated[list[OutcomeShown], ADDED]
    table: list[ComparedLineShown]
    differences: list[DifferenceShown]
    spending: list[SpendingShown]
    assumptions: list[AssumedShown]
    priorities: Annotated[list[PriorityShown] | None, From(omit=EMPTY)] = Field(
        None, description="Comparison of phases: the resource that decides in each phase."
    )
    elsewhere: Annotated[
        list[ElsewhereShown] | None, From("on_other_hardware", when=lambda comparison: bool(comparison.priorities))
    ] = Field(None, description="Comparison of phases: each phase on the other phases' accelerators.")


def comparison_json(c: Comparison, ids: dict[str, str]) -> Part:
    """A comparison as JSON. `ids` maps names of options to ids of stored recommendations."""
    stored = ({"id": ids[o.name]} if o.name in ids else {} for o in c.outcomes)
    options = [OutcomeShown.as_json(o, given=given) for o, given in zip(c.outcomes, stored, strict=True)]
    return CompareResponse.as_json(c, given={"options": options})
