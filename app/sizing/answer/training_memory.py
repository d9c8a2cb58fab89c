"""Writes the memory of training into an estimate: its parts, and the moment of a step at which it peaks."""

from __future__ import annotations

from math import isnan

from app.sizing.columns import Columns, at, column_names
from app.sizing.result import DeviceMemory, Reason
from app.sizing.training.finalists import Finalists
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING
from app.sizing.training.moments import activation_parts_at, total_bytes_at_moments
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run
from app.sizing.units import GIB
from app.sizing.words import join_words
from app.sizing.workload import Method, TrainingWorkload

# What can be offloaded to host memory, by the column of the plan that says so.
OFFLOADED_PARTS = {
    "parameter_offload": "weights",
    "optimizer_offload": "optimizer states",
    "activation_offload": "activations",
}

# The moments of a step in MOMENTS, as a sentence names them.
PEAK_MOMENT_TEXTS = (
    "at the loss, when the forward pass ends",
    "when the backward pass starts",
    "when the backward pass ends and all gradients exist",
    "in the optimizer step",
)


def memory_reason(workload: TrainingWorkload, plans: TrainingPlans, run: Run, row: int) -> Reason:
    """Sentence about the memory of an accelerator and the choices behind it."""
    total, usable = at(run.memory.total_bytes, row) / GIB, at(run.memory.usable_bytes, row) / GIB
    choices = []
    stage = at(plans.zero_stage, row) if at(run.data_parallel, row) * at(plans.context_parallel, row) > 1 else 0
    if stage >= 3:
        choices.append("weights, gradients and optimizer states sharded (ZeRO-3)")
    elif stage >= 1:
        choices.append("optimizer states sharded (distributed optimizer)")
    kept = ACTIVATION_CHECKPOINTING[int(plans.activation_checkpointing[row])]
    if kept != "none":
        choices.append(f"{kept} activation checkpointing")
    if moved := [words for column, words in OFFLOADED_PARTS.items() if getattr(plans, column)[row]]:
        host = at(run.memory.host_bytes, row) / GIB
        unknown = " (not listed: ask the seller)" if isnan(at(plans.offered.ram_bytes, row)) else ""
        choices.append(f"{join_words(moved)} offloaded to {host:,.0f} GiB of host memory{unknown}")
    if workload.method is Method.QLORA:
        choices.append("4-bit base weights")
    how = f", with {join_words(choices)}" if choices else ", without ZeRO sharding or activation checkpointing"
    when = PEAK_MOMENT_TEXTS[int(run.memory.moment[row])]
    return Reason(
        "memory",
        f"Each accelerator uses {total:.1f} GiB of {usable:.1f} GiB usable memory{how}. Memory peaks {when}.",
        "memory_gib",
        total,
        "GiB",
    )


def memory_parts(finalists: Finalists, row: int) -> DeviceMemory:
    """Memory of a row by part, at every moment of a step, and its activations at the peak."""
    memory, held = finalists.run.memory, finalists.memory_by_kind
    moments, parts = (
        total_bytes_at_moments(held, finalists.plans.stack.memory_factors),
        activation_parts_at(held, memory.moment),
    )
    return DeviceMemory(
        weights_bytes=at(memory.weights_bytes, row),
        kv_cache_bytes=0.0,
        activation_bytes=at(memory.activation_bytes, row),
        overhead_bytes=at(memory.overhead_bytes, row),
        gradient_bytes=at(memory.gradient_bytes, row),
        optimizer_bytes=at(memory.optimizer_bytes, row),
        capacity_bytes=at(memory.capacity_bytes, row),
        usable_bytes=at(memory.usable_bytes, row),
        moments_bytes=_row_bytes(moments, row),
        activation_parts_bytes=_row_bytes(parts, row),
    )


def _row_bytes(table: Columns, row: int) -> dict[str, float]:
    """A row of a table of bytes as a dictionary, by column name without the suffix "_bytes"."""
    return {name.removesuffix("_bytes"): at(getattr(table, name), row) for name in column_names(type(table))}
