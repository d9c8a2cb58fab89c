"""Schemas of POST /compare: named options and their differences."""

from __future__ import annotations

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
    rounded_fields,
    with_examples,
)
from app.api.schemas.conversion import assumed_json, deployment_json
from app.api.schemas.model import ModelReference
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
from app.sizing.comparing.causes import Difference
from app.sizing.comparing.compare import Comparison
from app.sizing.comparing.months import Spending
from app.sizing.comparing.outcomes import Outcome
from app.sizing.comparing.phases import OtherHardware, Priority

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


class ReserveShown(ResponseModel):
    """Accelerators and cost including the reserve."""

    total_accelerators: int
    usd_per_hour: float | None = None


class OutcomeShown(ResponseModel):
    """Result of one option."""

    name: str
    does_it: bool = Field(description="True if it runs and serves the workload within the limits.")
    fits: bool
    id: str | None = Field(None, description="ID of the stored recommendation, if the option has no deployment.")
    accelerator: str | None = None
    deployment: DeploymentShown | None = None
    bottleneck: BottleneckName | None = None
    why_not: str | None = None
    with_reserve: ReserveShown | None = Field(
        None, description="Needs with the reserve of a recommendation, if the option has less."
    )


class ComparedLineShown(ResponseModel):
    """One quantity for all options, in their order."""

    quantity: str
    unit: str
    values: list[float | None] = Field(description="One value per option, in their order.")
    best: str | None = Field(
        None, description="Best option among those that meet the requirements; null if they are equal."
    )


class CauseShown(ResponseModel):
    """One cause of a difference."""

    code: str = Field(description="Cause: price, speed, room, idle or work.")
    ratio: float = Field(description="Factor of this cause; the factors multiply to the ratio of the difference.")
    text: str


class DifferenceShown(ResponseModel):
    """Extra cost of an option over the cheapest option that meets the requirements."""

    name: str
    compared_with: str
    quantity: str
    ratio: float
    causes: list[CauseShown]


class MonthShown(ResponseModel):
    """Cumulative payments up to a month."""

    month: int
    usd: float


class PathShown(ResponseModel):
    """One way to acquire the machines, month by month."""

    way: str = Field(description="Way to acquire: on_demand, committed_1y, committed_3y, spot, owned or hosted_api.")
    provider: str
    months: list[MonthShown] = Field(description="Cumulative payments by month.")
    left_usd: float = Field(description="Resale value of owned machines at the end.")
    committed_usd: float = Field(description="Remaining payments of a commitment at the end.")
    net_usd: float = Field(description="Payments plus commitments, minus the resale value.")


class OvertakingShown(ResponseModel):
    """When one way to pay becomes cheaper than another."""

    way: str
    overtakes: str
    month: float = Field(description="Month from which it has cost less, excluding resale.")


class SpendingShown(ResponseModel):
    """Cumulative cost of each way to acquire an option's machines, the cheapest at the end first."""

    name: str
    ways: list[PathShown]
    overtakes: list[OvertakingShown]


class PriorityShown(ResponseModel):
    """The resource that decides in one phase."""

    phase: str
    chosen_by: str
    memory_shares: dict[str, float]
    text: str


class ElsewhereShown(ResponseModel):
    """One phase on the accelerator that another phase uses."""

    phase: str
    on_that_of: str
    accelerator: str
    usd: float | None
    times: float | None = Field(
        description="Cost relative to the phase's own accelerator; null if it does not run there."
    )
    text: str


class CompareResponse(ResponseModel):
    """Comparison of the options."""

    catalog: dict[str, str]
    as_of: str
    summary: str
    options: list[OutcomeShown]
    table: list[ComparedLineShown]
    differences: list[DifferenceShown]
    spending: list[SpendingShown]
    assumptions: list[AssumedShown]
    priorities: list[PriorityShown] | None = Field(
        None, description="Comparison of phases: the resource that decides in each phase."
    )
    elsewhere: list[ElsewhereShown] | None = Field(
        None, description="Comparison of phases: each phase on the other phases' accelerators."
    )


def comparison_json(c: Comparison, ids: dict[str, str]) -> Part:
    """A comparison as JSON. `ids` maps names of options to ids of stored recommendations."""
    shown: Part = {
        "summary": c.summary,
        "options": [_outcome_json(o, ids.get(o.name)) for o in c.outcomes],
        "table": [
            {"quantity": i.quantity, "unit": i.unit, "values": [round_value(v) for v in i.values], "best": i.best}
            for i in c.table
        ],
        "differences": [_difference_json(d) for d in c.differences],
        "spending": [_spending_json(s) for s in c.spending],
        "assumptions": [assumed_json(a) for a in c.assumptions],
    }
    if c.priorities:
        shown["priorities"] = [_priority_json(p) for p in c.priorities]
        shown["elsewhere"] = [_elsewhere_json(e) for e in c.on_other_hardware]
    return shown


def _outcome_json(o: Outcome, identity: str | None) -> Part:
    shown: Part = {"name": o.name, "does_it": o.meets_requirements, "fits": o.fits, **rounded_fields(id=identity)}
    if o.accelerator is not None and o.estimate is not None:
        shown |= rounded_fields(accelerator=o.accelerator.slug, bottleneck=o.estimate.bottleneck)
        shown["deployment"] = deployment_json(o.estimate.deployment)
    if (more := o.level_with_reserve) is not None:
        shown["with_reserve"] = rounded_fields(
            total_accelerators=more.total_accelerators, usd_per_hour=more.usd_per_hour
        )
    return shown | rounded_fields(why_not=o.why_not)


def _difference_json(d: Difference) -> Part:
    causes = [{"code": c.code, "ratio": round_value(c.ratio), "text": c.text} for c in d.causes]
    return {
        "name": d.name,
        "compared_with": d.baseline,
        "quantity": d.quantity,
        "ratio": round_value(d.ratio),
        "causes": causes,
    }


def _spending_json(s: Spending) -> Part:
    return {
        "name": s.name,
        "ways": [
            {
                "way": p.way,
                "provider": p.provider,
                "months": [
                    {"month": m, "usd": round_value(usd)}
                    for m, usd in enumerate(p.usd)
                    if m % SHOWN_EVERY_MONTHS == 0 or m == len(p.usd) - 1
                ],
                **rounded_fields(left_usd=p.left_usd, committed_usd=p.committed_usd, net_usd=p.net_usd),
            }
            for p in s.paths
        ],
        "overtakes": [{"way": o.way, "overtakes": o.overtakes, "month": round(o.month, 1)} for o in s.crossovers],
    }


def _priority_json(p: Priority) -> Part:
    shares = {name: round_value(share, 3) for name, share in p.memory_shares.items()}
    return {"phase": p.name, "chosen_by": p.chosen_by, "memory_shares": shares, "text": p.text}


def _elsewhere_json(e: OtherHardware) -> Part:
    return {
        "phase": e.name,
        "on_that_of": e.on,
        "accelerator": e.accelerator,
        "usd": round_value(e.usd),
        "times": round_value(e.times),
        "text": e.text,
    }
