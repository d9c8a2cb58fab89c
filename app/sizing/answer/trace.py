"""The arithmetic of an estimate, line by line: each line can be recomputed from the inputs it shows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import one
from app.sizing.decisions.cost import Cost
from app.sizing.hardware.engines import RULES
from app.sizing.result import Performance, Step
from app.sizing.serving.load import Operation, Speed, later_tokens
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.search import Judged, served_per_s, units_per_request
from app.sizing.serving.single_pass import BatchMemory, BatchSpeed, batch_s, work_of
from app.sizing.serving.step import decode_step_s, forward_s, linear_s, touched_experts
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, units_per_s
from app.sizing.training.work import flops_per_unit
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload


def serving_trace(workload: InferenceWorkload, judged: Judged) -> tuple[Step, ...]:
    """The arithmetic of one estimate, each line recomputable from its own inputs."""
    plans, memory, speed = judged.plans, judged.memory, judged.speed
    steps: list[Step] = []

    def step(name: str, formula: str, value: float, unit: str, source: str, **inputs: float) -> None:
        steps.append(Step(name, formula, inputs, value, unit, source))

    devices = one(plans.accelerators_per_replica)
    load_overhead = one(memory.weights_bytes) * devices / one(plans.weights_bytes)
    step(
        "weights_bytes_per_accelerator",
        "weights_bytes / accelerators_per_replica * load_overhead",
        one(memory.weights_bytes),
        "B",
        "counts of the configuration; start-up logs for the load overhead",
        weights_bytes=one(plans.weights_bytes),
        accelerators_per_replica=devices,
        load_overhead=load_overhead,
    )
    _usable(step, memory)
    if isinstance(memory, ServingMemory) and isinstance(speed, Speed):
        _stream_trace(step, workload, judged, memory, speed)
    elif isinstance(speed, BatchSpeed):
        t, b = speed.terms, one(speed.slo_batch)
        work = work_of(workload)
        step(
            "flops_slope_s",
            "flops / (matrix_flops_per_s * achieved_fraction)",
            one(t.flops_slope_s),
            "s/sample",
            "roofline",
            flops=work.flops,
            matrix_flops_per_s=one(plans.linear_flops_per_s),
            achieved_fraction=work.flops / one(plans.linear_flops_per_s) / one(t.flops_slope_s),
        )
        step(
            "batch_s",
            "passes * (((batch * flops_slope_s) ** p + (weights_s + batch * bytes_slope_s) ** p) ** (1 / p) + launch_s)"
            " + batch * extra_slope_s + request_s",
            one(batch_s(t, speed.slo_batch)),
            "s",
            "roofline with a rounded knee",
            passes=t.passes,
            batch=b,
            flops_slope_s=one(t.flops_slope_s),
            weights_s=one(t.weights_s),
            bytes_slope_s=one(t.bytes_slope_s),
            p=one(t.exponent),
            launch_s=one(t.launch_s),
            extra_slope_s=one(t.extra_slope_s),
            request_s=one(t.request_s),
        )
        step(
            "capacity_per_s",
            "batch / batch_s",
            one(speed.capacity_per_s),
            "1/s",
            "definition",
            batch=b,
            batch_s=one(batch_s(t, speed.slo_batch)),
        )
    if workload.load is Load.OPEN:
        step(
            "replicas_at_target",
            "ceil(peak_per_s / (capacity_per_s * target_utilization) - 1e-9)",
            math.ceil(workload.peak_per_s / (one(speed.capacity_per_s) * workload.target_utilization) - 1e-9),
            "replicas",
            "DESIGN: target utilisation of the capacity within the SLO",
            peak_per_s=workload.peak_per_s,
            capacity_per_s=one(speed.capacity_per_s),
            target_utilization=workload.target_utilization,
        )
    served = one(served_per_s(workload, judged)) * units_per_request(workload)
    hourly = one(judged.cost.usd_per_hour)
    if math.isfinite(hourly):
        step(
            "usd_per_hour",
            "nodes * usd_per_node_hour",
            hourly,
            "USD/h",
            "catalogue offer",
            nodes=one(judged.fleet.nodes),
            usd_per_node_hour=one(plans.offered.usd_per_hour),
        )
        step(
            "usd_per_million",
            "usd_per_hour / 3600 / units_per_s * 1e6",
            hourly / 3600 / served * 1e6,
            "USD",
            "at the real load",
            usd_per_hour=hourly,
            units_per_s=served,
        )
    return tuple(steps)


def _usable(step: Callable[..., None], memory: ServingMemory | BatchMemory) -> None:
    """What the engine will take, by its own rule."""
    known = {"capacity_bytes": one(memory.capacity_bytes), "memory_fraction": one(memory.memory_fraction)}
    rule = "device"
    if isinstance(memory, ServingMemory):
        rule = list(RULES)[int(memory.rule[0])]
        known |= {
            "beside_bytes": one(memory.activation_bytes + memory.overhead_bytes),
            "fixed_bytes": one(memory.fixed_bytes),
        }
    inputs = {name: value for name, value in known.items() if name in RULES[rule]}
    step(
        "usable_bytes",
        RULES[rule],
        one(memory.usable_bytes),
        "B",
        "the engine's own rule for its share of a device",
        **inputs,
    )


def _stream_trace(
    add: Callable[..., None], workload: InferenceWorkload, judged: Judged, memory: ServingMemory, speed: Speed
) -> None:
    """Lines of a token stream: cache, step, capacity."""
    operation = judged.operation
    assert isinstance(operation, Operation)
    plans, model, t = judged.plans, workload.model, speed.step
    add(
        "kv_pool_bytes",
        "max(0, usable_bytes - weights_bytes - activation_bytes - overhead_bytes)",
        one(memory.kv_pool_bytes),
        "B",
        "engines give the cache what is left",
        usable_bytes=one(memory.usable_bytes),
        weights_bytes=one(memory.weights_bytes),
        activation_bytes=one(memory.activation_bytes),
        overhead_bytes=one(memory.overhead_bytes),
    )
    if len(model.attention) == 1 and model.state_bytes_per_sequence == 0 and not model.attention[0].crosses:
        g = model.attention[0]
        tokens = g.kept(workload.tokens_per_request)
        heads = min(float(g.kv_heads), one(plans.tensor_parallel))
        add(
            "cache_bytes_per_sequence",
            "layers * kv_elements * element_bytes * tokens / (heads_split * pipeline_parallel)",
            one(memory.cache_bytes_per_sequence),
            "B",
            "Kwon et al. 2023 (arXiv:2309.06180)",
            layers=float(g.layers),
            kv_elements=g.kv_elements + g.index_elements,
            element_bytes=one(plans.kv_element_bytes),
            tokens=tokens,
            heads_split=heads,
            pipeline_parallel=one(plans.pipeline_parallel),
        )
    add(
        "linear_slope_s",
        "2 * matmul_params / tensor_parallel / (matrix_flops_per_s * achieved_fraction)",
        one(t.linear_slope_s),
        "s/sequence",
        "roofline",
        matmul_params=float(model.matmul_params),
        tensor_parallel=one(plans.tensor_parallel),
        matrix_flops_per_s=one(plans.linear_flops_per_s),
        achieved_fraction=one(plans.achieved.linear_compute_fraction),
    )
    add(
        "dense_s",
        "streamed_bytes / tensor_parallel / (bytes_per_s * achieved_fraction)",
        one(t.dense_s),
        "s",
        "roofline",
        streamed_bytes=one(plans.streamed_bytes),
        tensor_parallel=one(plans.tensor_parallel),
        bytes_per_s=one(plans.bytes_per_s),
        achieved_fraction=one(plans.achieved.linear_memory_fraction),
    )
    batch = np.maximum(judged.operation.batch, 1.0)
    micro = np.maximum(1.0, batch / t.pipeline_parallel) * (1.0 + t.drafted)
    touched = one(touched_experts(micro, t.expert_share))
    linear = one(linear_s(t, micro))
    add(
        "linear_s",
        "((micro_batch * linear_slope_s) ** p + (dense_s + experts_s * touched) ** p) ** (1 / p)",
        linear,
        "s",
        "roofline with a rounded knee",
        micro_batch=one(micro),
        linear_slope_s=one(t.linear_slope_s),
        dense_s=one(t.dense_s),
        experts_s=one(t.experts_s),
        touched=touched,
        p=one(t.exponent),
    )
    sequences = np.maximum(1.0, batch / t.pipeline_parallel)
    fixed = one(t.attention_fixed_s + t.collective_fixed_s + t.host_fixed_s)
    forward = one(forward_s(t, batch, 1.0 + t.drafted))
    add(
        "forward_s",
        "linear_s + sequences * attention_slope_s + micro_batch * collective_slope_s + batch * host_slope_s + fixed_s",
        forward,
        "s",
        "sum of the parts of a step",
        linear_s=linear,
        sequences=one(sequences),
        attention_slope_s=one(t.attention_slope_s),
        micro_batch=one(micro),
        collective_slope_s=one(t.collective_slope_s),
        batch=one(batch),
        host_slope_s=one(t.host_slope_s),
        fixed_s=fixed,
    )
    decode = one(decode_step_s(t, batch))
    drafting = decode * t.gained - forward
    add(
        "decode_step_s",
        "(forward_s + drafting_s) / tokens_per_step",
        decode,
        "s",
        "tokens a sequence gains per pass: 1 unless speculating",
        forward_s=forward,
        drafting_s=drafting,
        tokens_per_step=t.gained,
    )
    out, occupied = float(later_tokens(workload.output_tokens.mean)), one(speed.occupancy_s)
    if workload.load is not Load.BATCH:
        between = 1 - one(speed.prefill.queued_share) if workload.load is Load.CLOSED else 1.0
        add(
            "tpot_s",
            "decode_step_s + (batch - 1) / later_tokens * prefill_s * interleaved_share",
            one(operation.tpot_s),
            "s/token",
            "continuous batching in the mean",
            decode_step_s=decode,
            batch=one(batch),
            later_tokens=out,
            prefill_s=occupied,
            interleaved_share=between,
        )
    add(
        "saturation_per_s",
        "max_batch / (max_batch * prefill_s + later_tokens * step_at_max_batch_s)",
        one(speed.saturation_per_s),
        "requests/s",
        "Little's law",
        max_batch=one(speed.max_batch),
        later_tokens=out,
        prefill_s=occupied,
        step_at_max_batch_s=one(decode_step_s(t, speed.max_batch)),
    )


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
