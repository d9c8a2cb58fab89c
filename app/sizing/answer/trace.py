"""The arithmetic of an estimate, line by line: each line can be recomputed from the inputs it shows."""

from __future__ import annotations

import math

from app.sizing.assumptions import Assumptions
from app.sizing.columns import one
from app.sizing.decisions.cost import Cost
from app.sizing.formula import Step
from app.sizing.result import Performance
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, units_per_s
from app.sizing.training.work import flops_per_unit
from app.sizing.workload import TrainingWorkload


def training_trace(
    workload: TrainingWorkload,
    plans: TrainingPlans,
    run: Run,
    performance: Performance,
    cost: Cost,
    assumed: Assumptions,
) -> tuple[Step, ...]:
    """The arithmetic of a run, each line recomputable."""
    step, memory = run.step, run.memory
    rate = one(units_per_s(workload, run))
    steps = [
        Step(
            "step_time_s",
            "compute + exposed_communication + pipeline_bubble + optimizer + input",
            dict(performance.step_breakdown_s or {}),
            one(step.step_s),
            "s",
            "sum of the parts of a step",
        ),
        Step(
            "units_per_s",
            "global_batch * units_per_sequence / step_time_s",
            {
                "global_batch": float(workload.global_batch),
                "units_per_sequence": workload.units_per_sequence,
                "step_time_s": one(step.step_s),
            },
            rate,
            "1/s",
            "definition",
        ),
        Step(
            "mfu",
            "units_per_s * flops_per_unit / (accelerators * peak_flops_per_s)",
            {
                "units_per_s": rate,
                "flops_per_unit": flops_per_unit(workload),
                "accelerators": one(run.devices),
                "peak_flops_per_s": one(plans.peak_flops_per_s),
            },
            performance.mfu or 0.0,
            "1",
            "Chowdhery et al. 2022 (arXiv:2204.02311)",
        ),
        Step(
            "wall_s",
            "units / units_per_s * (1 + validation_overhead) * (1 + experiment_overhead) * (1 + checkpoint_stall_s / checkpoint_interval_s)"
            " / (1 - min(interruptions_per_s * (restart_s + checkpoint_interval_s / 2), 0.95))",
            {
                "units": workload.units,
                "units_per_s": rate,
                "experiment_overhead": workload.experiment_overhead,
                "validation_overhead": assumed.validation_overhead,
                "checkpoint_stall_s": one(run.losses.checkpoint_stall_s),
                "checkpoint_interval_s": one(run.losses.checkpoint_interval_s),
                "interruptions_per_s": one(run.losses.interruptions_per_s),
                "restart_s": run.losses.restart_s,
            },
            one(run.wall_s),
            "s",
            "steps, experiments and lost time",
        ),
        Step(
            "accelerator_hours",
            "wall_s / 3600 * accelerators",
            {"wall_s": one(run.wall_s), "accelerators": one(run.devices)},
            performance.accelerator_hours or 0.0,
            "h",
            "definition",
        ),
        Step(
            "memory_bytes_per_accelerator",
            "weights + gradients + optimizer + activations + overhead",
            {
                "weights": one(memory.weights_bytes),
                "gradients": one(memory.gradient_bytes),
                "optimizer": one(memory.optimizer_bytes),
                "activations": one(memory.activation_bytes),
                "overhead": one(memory.overhead_bytes),
            },
            one(memory.total_bytes),
            "B",
            "sum of the parts",
        ),
    ]
    hourly = one(cost.usd_per_hour)
    if math.isfinite(hourly):
        steps.append(
            Step(
                "usd_total",
                "usd_per_hour * wall_s / 3600",
                {"usd_per_hour": hourly, "wall_s": one(run.wall_s)},
                hourly * one(run.wall_s) / 3600,
                "USD",
                "whole machines for the whole run",
            )
        )
    return tuple(steps)
