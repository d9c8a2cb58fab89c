"""By how much plans of serving may turn out worse than predicted: what sizing for a confidence allows for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.hardware.tables import Stacks
from app.sizing.serving.plans import Plans
from app.sizing.surroundings import Beside, Shape
from app.sizing.uncertainty import Around, Spreads
from app.sizing.workload import InferenceWorkload, Load


@dataclass(frozen=True, slots=True)
class Margins(Columns):
    """Factors of time that hold with a confidence, one row per plan; 1 is as predicted."""

    rate: Column  # a rate is divided by it
    tpot: Column
    ttft: Column
    memory_share: Column  # of the device, taken beyond what is predicted

    @classmethod
    def none(cls, count: int) -> Margins:
        """As predicted."""
        whole = np.ones(count)
        return cls(whole, whole, whole, np.zeros(count))

    def request_s(self, first_token_s: Column, whole_s: Column) -> Column:
        """A whole request by the margins: its first token, then the others, each by its own."""
        later = np.subtract(whole_s, first_token_s, out=whole_s.copy(), where=np.isfinite(whole_s))
        return first_token_s * self.ttft + later * self.tpot

    def only(self, rows: Mask) -> Margins:
        """These in some rows, none in the others."""
        rate, tpot, ttft = (np.where(rows, factor, 1.0) for factor in (self.rate, self.tpot, self.ttft))
        return Margins(rate, tpot, ttft, np.where(rows, self.memory_share, 0.0))


def around_plans(workload: InferenceWorkload, plans: Plans, beside: Beside, assumed: Assumptions) -> Around:
    """What was published around every plan: of weights in a host's memory nothing."""
    around = around_stacks(workload, plans.stacks.table, beside, assumed).take(plans.stacks.rows)
    if plans.on_host is None:
        return around
    widened = np.where(plans.away, np.maximum(around.widened, assumed.expected_support_widening), around.widened)
    return replace(around, sources=np.where(plans.away, 0.0, around.sources), widened=widened)


def around_stacks(workload: InferenceWorkload, stacks: Stacks, beside: Beside, assumed: Assumptions) -> Around:
    """What was published around every stack."""
    shape = Shape(float(workload.model.total_params), workload.input_tokens.mean, workload.output_tokens.mean)
    around = beside.around(shape).take(stacks.beside)
    return replace(around, widened=np.where(stacks.expected, assumed.expected_support_widening, 1.0))


def kinds_of(workload: InferenceWorkload) -> tuple[str, str, str]:
    """Which errors the rate, TPOT and TTFT of a workload are subject to."""
    if workload.single_pass:
        return "samples", "sample_latency", "sample_latency"
    if workload.load is Load.CLOSED and workload.in_flight <= 1:
        return "single_stream", "single_stream", "ttft"
    return "throughput", "tpot", "ttft"


def margins_at(
    standing: Column | float, workload: InferenceWorkload, around: Around, spreads: Spreads, assumed: Assumptions
) -> Margins:
    """What holds at the standing of a confidence in a normal distribution: 0 is as predicted."""
    names = kinds_of(workload)
    told = {name: spreads.of(name) for name in names}
    factors = {name: np.exp(spread.scale(around) * spread.quantile(standing)) for name, spread in told.items()}
    rate, tpot, ttft = (factors[name] for name in names)
    return Margins(rate, tpot, ttft, np.full(len(around), assumed.memory_deviation) * standing)
