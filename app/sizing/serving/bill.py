"""The bill of certainty: why a service gets more accelerators than its load needs at full speed, factor by factor.

Each factor multiplies the accelerators before it, so that all of them multiply to the accelerators that are bought.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.sizing.columns import TINY, Column, Columns, at
from app.sizing.formula import suspend_recording
from app.sizing.result import BillFactor, CertaintyFactor, Reason
from app.sizing.serving.finalists import SimulatedReplicas
from app.sizing.serving.interfaces import Speed
from app.sizing.serving.load_curves import MIN_WAIT_S, stability_limits
from app.sizing.serving.options import PlanEvaluations
from app.sizing.words import format_number, percent
from app.sizing.workload import InferenceWorkload, Load

LIMIT_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "end-to-end latency"}


@dataclass(frozen=True, slots=True)
class ReplicaLoads(Columns):
    """What one replica carries under more and more conditions: requests/s, or requests in flight (closed loop)."""

    stable: Column  # at full load, as predicted
    expected: Column  # within the limits, as predicted
    confident: Column  # within the limits at the confidence
    planned: Column  # the same with the reserve


def loads_of_replicas(
    workload: InferenceWorkload, expected: Speed, confident: Speed, runs: SimulatedReplicas | None
) -> ReplicaLoads | None:
    """Loads of the replica of every plan; None for work without a load to carry.

    Replicas of a closed loop were simulated with the batch of the requested confidence. The median prediction allows a
    larger one: at least the one at the confidence, scaled by the ratio that the formulas give.

    Parameters:
        expected: speed at the median prediction, with the batch that it allows.
        confident: speed at the requested confidence.
        runs: simulation of the plans, if there is one.
    """
    if workload.load is Load.OPEN and runs is None:
        planned = confident.planned_capacity_per_s(workload)
        return ReplicaLoads(expected.saturation_per_s, expected.capacity_per_s, confident.capacity_per_s, planned)
    if runs is None or workload.load not in (Load.OPEN, Load.CLOSED):
        return None
    closed = workload.load is Load.CLOSED
    likely, sure = runs.expected_capacity(workload)[closed], runs.capacity_at_confidence(workload)[closed]
    if closed:
        batches = expected.slo_batch, confident.slo_batch
        ratio = np.where(batches[1] > 0, batches[0] / np.maximum(batches[1], TINY), 1.0)
        whole = np.floor(sure * np.maximum(ratio, 1.0) + MIN_WAIT_S)  # requests in flight are whole
        likely, planned = np.maximum(likely, whole), sure
        limited = np.array([curve.reaches_limit(workload.slo) for curve in runs.curves])
        limited |= expected.slo_batch < runs.sequences
        full = np.where(limited, runs.sequences, likely)  # without a binding limit, the heaviest simulated load
    else:
        full, planned = stability_limits(runs.curves), runs.planned_capacity(workload)[0]
    return ReplicaLoads(np.maximum(full, likely), likely, sure, planned)


def bills_of_certainty(
    workload: InferenceWorkload,
    judged: PlanEvaluations[Any, Any, Any],
    expected: Speed,
    confident: Speed,
    runs: SimulatedReplicas | None,
) -> tuple[tuple[CertaintyFactor, ...], ...]:
    """Bill of every deployment, without factors of 1; empty where it cannot carry the load or there is none.

    Parameters:
        expected: speed at the median prediction, with the batch that it allows.
        confident: speed at the requested confidence.
        runs: simulation of the deployments, if there is one.
    """
    with suspend_recording():
        loads = loads_of_replicas(workload, expected, confident, runs)
    if loads is None:
        return ((),) * len(judged)
    asked = workload.peak_per_s if workload.load is Load.OPEN else workload.in_flight
    fleet, each, usd = judged.fleet, judged.plans.accelerators_per_replica, judged.options.daily_usd_per_hour
    counts = [asked / np.maximum(load, 1e-12) * each for load in (loads.stable, loads.expected, loads.confident)]
    planned = asked / np.maximum(loads.planned, 1e-12) * each
    spared = planned * ((fleet.replicas + fleet.spare_replicas) / fleet.replicas)  # exactly `planned` without spares
    table = np.stack([*counts, planned, spared, fleet.accelerators])
    carries = (loads.planned * fleet.replicas >= asked * (1 - 1e-9)) & (loads.planned > 1e-9) & (table > 0).all(axis=0)

    def bill_of(row: int) -> tuple[CertaintyFactor, ...]:
        removed = removal_texts(workload, judged, runs, row)
        column, hourly = table[:, row].tolist(), at(usd, row) / at(fleet.accelerators, row)
        before = [None, *column]
        return tuple(
            CertaintyFactor(
                factor,
                1.0 if last is None else count / last,
                count,
                None if np.isnan(hourly) else count * hourly,
                text,
            )
            for factor, count, last, text in zip(BillFactor, column, before, removed, strict=False)
            if last is None or count != last
        )

    return tuple(bill_of(row) if carries[row] else () for row in range(len(judged)))


def removal_texts(
    workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], runs: SimulatedReplicas | None, row: int
) -> Iterator[str]:
    """What would remove each factor of a bill, in its order."""
    yield "a faster accelerator, engine or format"
    yield limit_text(workload, runs, row)
    yield "the benchmark in `verification`, or a lower `constraints.confidence`"
    yield f"a higher `target_utilization` than {percent(workload.target_utilization)}"
    yield f"`availability.redundancy` none instead of {workload.redundancy.label}"
    yield rounding_text(at(judged.plans.accelerators_per_node, row), at(judged.plans.accelerators_per_replica, row))


def rounding_text(machine: float, replica: float) -> str:
    """What would remove the accelerators that only fill whole machines and replicas.

    Parameters:
        machine: accelerators of one machine.
        replica: accelerators of one replica.
    """
    smaller = [f"machines with fewer than {format_number(machine)} accelerators"] if machine > 1 else []
    smaller += ["smaller replicas"] if replica > 1 else []
    return f"{', '.join(smaller or ['a smaller accelerator'])} or a load that fills them"


def limit_text(workload: InferenceWorkload, runs: SimulatedReplicas | None, row: int) -> str:
    """What would let a replica carry more within the limits: the limit that binds, and a router that balances load."""
    found = None if runs is None else runs.curves[row].binding_limit(workload.slo)
    text = "looser latency limits"
    if found is not None:
        name, limit_s = found
        text = (
            f"a looser limit than p{workload.slo.percentile:g} of {LIMIT_NAMES[name]} {format_number(limit_s * 1e3)} ms"
        )
    if workload.load is Load.OPEN and not workload.balances_load and not workload.keeps_prefixes:
        text += ", or the router `least_loaded`"
    return text


FEW_MACHINES = 3  # with up to three, one more costs over 30 % more
NEARLY_FULL = 1.1  # load that the whole machines carry over the planned one, up to which a small step may need one more


def bill_sentence(bill: Sequence[CertaintyFactor], machines: int = FEW_MACHINES + 1) -> str:
    """A bill as one sentence, and another one if a little more load needs a machine more.

    Parameters:
        machines: machines of the deployment.
    """
    first, *others = bill
    factors = "".join(
        f" × {line.multiplier:.2f} ({line.factor.value.replace('_', ' ')})"
        for line in others
        if line.multiplier > 1.005
    )
    last = bill[-1]
    room = last.multiplier if last.factor is BillFactor.WHOLE_MACHINES else 1.0
    more = f"From {percent(room - 1)} more load on" if room >= 1.005 else "With any more load"
    near = f" {more}, another machine is needed." if machines <= FEW_MACHINES and room < NEARLY_FULL else ""
    return (
        f"Accelerators for the peak: {format_number(first.total_accelerators)} predicted at full load{factors}, "
        f"{format_number(last.total_accelerators)} in all.{near}"
    )


def bill_reasons(bill: Sequence[CertaintyFactor], machines: int | None) -> Iterator[Reason]:
    """The bill of certainty as a sentence, where there is one."""
    if bill:
        text, total = bill_sentence(bill, machines or 1), bill[-1].total_accelerators
        yield Reason("bill", text, "total_accelerators", total, "accelerators")
