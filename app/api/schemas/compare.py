"""POST /compare on the wire: options by name, and what sets them apart."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from app.api.schemas.answers import AssumedShown, DeploymentShown
from app.api.schemas.base import Name, Shown, Wire, Words, present, rounded, shown_as
from app.api.schemas.conversion import assumed_json, deployment_json
from app.api.schemas.maps import WorkloadOfPhase
from app.api.schemas.model import ModelReference
from app.api.schemas.names import (
    BottleneckName,
    ObjectiveName,
)
from app.api.schemas.requests import (
    AS_OF,
    LABEL,
    REFERENCE,
    AsOf,
    ConstraintsSpec,
    DeploymentSpec,
    EconomicsSpec,
    Overrides,
    example,
)
from app.api.schemas.workload import WorkloadSpec
from app.sizing.comparing.causes import Difference
from app.sizing.comparing.compare import Comparison
from app.sizing.comparing.months import Spending
from app.sizing.comparing.outcomes import Outcome
from app.sizing.comparing.phases import Elsewhere, Priority

MOST_OPTIONS = 8
SHOWN_EVERY_MONTHS = 3
Part = dict[str, Any]


class OptionSpec(Wire):
    """One of what is compared: a deployment to judge, or limits within which the best is looked for."""

    name: Annotated[Name, Field(max_length=60)]
    deployment: DeploymentSpec | None = Field(None, description="Judged as by /estimate; without one, by /recommend.")
    workload: Part = Field(
        {}, description="What of the shared workload is otherwise here: members replace, null removes."
    )
    constraints: Part = Field({}, description="The same of the shared constraints; with a deployment confidence alone.")
    objective: ObjectiveName | None = None


class PhasesSpec(Wire):
    """One model in several phases: of each the workload but for phase and model."""

    training: WorkloadOfPhase | None = None
    fine_tuning: WorkloadOfPhase | None = None
    inference: WorkloadOfPhase | None = None


class CompareRequest(Wire):
    """Either `workload` and `options`, or `model` and `phases`."""

    model_config = shown_as(example("compare-llama-70b"), example("compare-phases-8b"))

    workload: WorkloadSpec | None = None
    options: Annotated[list[OptionSpec], Field(min_length=2, max_length=MOST_OPTIONS)] | None = None
    model: ModelReference | None = None
    phases: PhasesSpec | None = None
    constraints: ConstraintsSpec = Field(ConstraintsSpec(), description="Of all options; of deployments confidence.")
    objective: ObjectiveName = "cost"
    economics: EconomicsSpec = EconomicsSpec()
    assumptions: Overrides = {}
    as_of: AsOf | None = Field(None, description=AS_OF)
    label: Words | None = Field(None, description=f"{LABEL} This and the next two: of every option that is stored.")
    reference: Words | None = Field(None, description=REFERENCE)
    cost_centre: Words | None = None

    @model_validator(mode="after")
    def _one_form(self) -> CompareRequest:
        by_options, by_phases = (self.workload, self.options), (self.model, self.phases)
        if None in by_options and None in by_phases:
            raise ValueError("give workload and options (two to eight), or model and phases (two or three)")
        if any(by_options) and any(by_phases):
            raise ValueError("give workload and options, or model and phases, not parts of both")
        if self.phases is not None and len(self.phases.model_fields_set) < 2:
            raise ValueError("phases: two of training, fine_tuning and inference are needed to compare")
        if self.options is not None and len({o.name for o in self.options}) < len(self.options):
            raise ValueError("options: every option needs a name of its own")
        return self


class ReserveShown(Shown):
    """What stands by beside what runs."""

    total_accelerators: int
    usd_per_hour: float | None = None


class OutcomeShown(Shown):
    """What came of one option."""

    name: str
    does_it: bool = Field(description="Whether it runs and carries what was asked within the limits.")
    fits: bool
    id: str | None = Field(None, description="Of the stored recommendation, where the best was looked for.")
    accelerator: str | None = None
    deployment: DeploymentShown | None = None
    bottleneck: BottleneckName | None = None
    why_not: str | None = None
    with_reserve: ReserveShown | None = Field(
        None, description="What it takes with the reserve a recommendation is planned with, where it has less."
    )


class ComparedLineShown(Shown):
    """One figure of all options, in their order."""

    quantity: str
    unit: str
    values: list[float | None] = Field(description="One of every option, in their order.")
    best: str | None = Field(None, description="Of options that do what was asked; null where they are equal.")


class CauseShown(Shown):
    """One cause of a difference."""

    code: str = Field(description="price, speed, room, idle or work.")
    ratio: float = Field(description="Factor of the difference; all of them multiply to it.")
    text: str


class DifferenceShown(Shown):
    """What one costs over the cheapest that does what was asked."""

    name: str
    beside: str
    quantity: str
    ratio: float
    causes: list[CauseShown]


class MonthShown(Shown):
    """What has been paid by a month."""

    month: int
    usd: float


class PathShown(Shown):
    """One way to have the machines, month by month."""

    way: str = Field(description="on_demand, committed_1y, committed_3y, spot, owned or hosted_api.")
    provider: str
    months: list[MonthShown] = Field(description="Money spent until then.")
    left_usd: float = Field(description="What owned machines would still sell for at the end.")
    committed_usd: float = Field(description="What a term still asks for at the end.")
    net_usd: float = Field(description="Spent and committed, less what is left.")


class OvertakingShown(Shown):
    """When one way to pay becomes cheaper than another."""

    way: str
    overtakes: str
    month: float = Field(description="From which on it has cost less, resale not counted.")


class SpendingShown(Shown):
    """What each way to have the machines of an option costs as months go by, least at the end first."""

    name: str
    ways: list[PathShown]
    overtakes: list[OvertakingShown]


class PriorityShown(Shown):
    """What decides in one phase."""

    phase: str
    chosen_by: str
    memory_shares: dict[str, float]
    text: str


class ElsewhereShown(Shown):
    """A phase on the accelerator that another takes."""

    phase: str
    on_that_of: str
    accelerator: str
    usd: float | None
    times: float | None = Field(description="What it would cost over what its own costs; null: it does not run there.")
    text: str


class CompareResponse(Shown):
    """Options side by side."""

    catalog: dict[str, str]
    as_of: str
    summary: str
    options: list[OutcomeShown]
    table: list[ComparedLineShown]
    differences: list[DifferenceShown]
    spending: list[SpendingShown]
    assumptions: list[AssumedShown]
    priorities: list[PriorityShown] | None = Field(None, description="Of phases: what decides in each.")
    elsewhere: list[ElsewhereShown] | None = Field(None, description="Of phases: each on the accelerator of another.")


def comparison_json(c: Comparison, ids: dict[str, str]) -> Part:
    """A comparison; `ids`: of the stored recommendations, by the name of the option."""
    shown: Part = {
        "summary": c.summary,
        "options": [_outcome_json(o, ids.get(o.name)) for o in c.outcomes],
        "table": [
            {"quantity": i.quantity, "unit": i.unit, "values": [rounded(v) for v in i.values], "best": i.best}
            for i in c.table
        ],
        "differences": [_difference_json(d) for d in c.differences],
        "spending": [_spending_json(s) for s in c.spending],
        "assumptions": [assumed_json(a) for a in c.assumptions],
    }
    if c.priorities:
        shown["priorities"] = [_priority_json(p) for p in c.priorities]
        shown["elsewhere"] = [_elsewhere_json(e) for e in c.elsewhere]
    return shown


def _outcome_json(o: Outcome, identity: str | None) -> Part:
    shown: Part = {"name": o.name, "does_it": o.does_it, "fits": o.fits, **present(id=identity)}
    if o.accelerator is not None and o.estimate is not None:
        shown |= present(accelerator=o.accelerator.slug, bottleneck=o.estimate.bottleneck)
        shown["deployment"] = deployment_json(o.estimate.deployment)
    if (more := o.reserve) is not None:
        shown["with_reserve"] = present(total_accelerators=more.total_accelerators, usd_per_hour=more.usd_per_hour)
    return shown | present(why_not=o.why_not)


def _difference_json(d: Difference) -> Part:
    causes = [{"code": c.code, "ratio": rounded(c.ratio), "text": c.text} for c in d.causes]
    return {"name": d.name, "beside": d.beside, "quantity": d.quantity, "ratio": rounded(d.ratio), "causes": causes}


def _spending_json(s: Spending) -> Part:
    return {
        "name": s.name,
        "ways": [
            {
                "way": p.way,
                "provider": p.provider,
                "months": [
                    {"month": m, "usd": rounded(usd)}
                    for m, usd in enumerate(p.usd)
                    if m % SHOWN_EVERY_MONTHS == 0 or m == len(p.usd) - 1
                ],
                **present(left_usd=p.left_usd, committed_usd=p.committed_usd, net_usd=p.net_usd),
            }
            for p in s.paths
        ],
        "overtakes": [{"way": o.way, "overtakes": o.overtakes, "month": round(o.month, 1)} for o in s.overtakings],
    }


def _priority_json(p: Priority) -> Part:
    shares = {name: rounded(share, 3) for name, share in p.memory_shares.items()}
    return {"phase": p.name, "chosen_by": p.chosen_by, "memory_shares": shares, "text": p.text}


def _elsewhere_json(e: Elsewhere) -> Part:
    return {
        "phase": e.name,
        "on_that_of": e.on,
        "accelerator": e.accelerator,
        "usd": rounded(e.usd),
        "times": rounded(e.times),
        "text": e.text,
    }
