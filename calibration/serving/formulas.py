"""Closed-form predictions of every metric, for all cases of one kind of run as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.sizing.columns import Column, Mask, concat_tables
from app.sizing.hardware.achieved import Achieved
from app.sizing.serving.capacity import occupancy_s
from app.sizing.serving.continuous_batching import idle_first_token_s, later_tokens
from app.sizing.serving.prefill import PrefillTerms, PrefillWork, prefill_terms, seconds_per_prompt
from app.sizing.serving.step import StepTerms, StepWork, step_s, step_terms
from calibration.serving.cases import ServingCase
from calibration.serving.measured import TAILS
from calibration.serving.runs import Start, Statistic

MAX_BUSY_SHARE = 0.98  # largest share of its time that a replica spends on prompts
MAX_ITERATIONS = 30  # iterations for the batch that a rate sustains


@dataclass(frozen=True, slots=True)
class Table:
    """Cases of one kind of run as columns; every rank of a replica counts as a replica."""

    start: Start
    step: StepWork
    prefill: PrefillWork
    wanted: Column
    rate_per_s: Column
    most: Column
    chunk_tokens: Column
    input_tokens: Column
    output_tokens: Column
    replicas: Column
    served: Column
    stream_interval: Column
    begins: Column  # share of the requests that arrive all at once
    publishes_medians: Mask  # whether medians are published instead of means
    taken: Mapping[str, Column]  # simulated over closed-form value by metric


@dataclass(frozen=True, slots=True)
class MeanFigures:
    """Mean figures of one replica, or of one of its ranks."""

    ttft_s: Column
    tpot_s: Column
    rate_per_s: Column


def column_of(cases: Sequence[ServingCase], name: str) -> Column:
    return np.array([getattr(c, name) for c in cases], dtype=np.float64)


def burst_share(case: ServingCase) -> float:
    """Share of a run's requests that arrived all at once."""
    return (
        min(1.0, case.wanted / case.requests_per_replica)
        if case.run.start is Start.BURST and case.requests_per_replica
        else 0.0
    )


def table_of(cases: Sequence[ServingCase]) -> Table:
    names = ("wanted", "rate_per_s", "most", "chunk_tokens", "input_tokens", "output_tokens", "replicas")
    columns: dict[str, Any] = {name: column_of(cases, name) for name in names}
    ranks = column_of(cases, "ranks")
    used = np.where(columns["rate_per_s"] > 0, ranks, np.minimum(ranks, columns["wanted"]))  # others are idle
    columns |= {"wanted": np.ceil(columns["wanted"] / used), "rate_per_s": columns["rate_per_s"] / used}
    columns["replicas"] = columns["replicas"] * used
    return Table(
        start=cases[0].run.start,
        step=concat_tables([c.step for c in cases]),
        prefill=concat_tables([c.prefill for c in cases]),
        served=np.array([float(c.run.served) for c in cases]),
        stream_interval=np.array([float(c.run.stream_interval) for c in cases]),
        begins=np.array([burst_share(c) for c in cases]),
        publishes_medians=np.array([c.run.statistic is Statistic.P50 for c in cases]),
        taken={m: np.array([c.taken.get(m, 1.0) for c in cases]) for m in {m for c in cases for m in c.taken}},
        **columns,
    )


def static_batch_means(table: Table, step: StepTerms, prefill: PrefillTerms) -> MeanFigures:
    """Means for static batches, which start and end together."""
    batch = np.minimum(table.wanted, table.most)
    first = prefill.request_s + batch * seconds_per_prompt(prefill, table.chunk_tokens, batch)
    decode = step_s(step, batch)
    return MeanFigures(first, decode, batch / (first + later_tokens(table.output_tokens) * decode))


def tpot_s(decode: Column, batch: Column, later: Column, occupied: Column) -> Column:
    """TPOT: one decode step plus the prefill of the requests that replace finished ones."""
    return decode + np.maximum(batch - 1, 0.0) / later * occupied


def decode_step_wait_s(new_tokens: Column, chunk_tokens: Column, decode: Column, batch: Column) -> Column:
    """TTFT added by a running batch: each chunk of a prompt shares an engine step with the decodes of the others."""
    wait_s: Column = np.ceil(new_tokens / chunk_tokens) * decode * (1 - 1 / np.maximum(batch, 1.0))
    return wait_s


def running_sequences(table: Table, step: StepTerms, alone: Column, occupied: Column) -> Column:
    """Sequences that run: the largest batch allowed, or the batch that an arrival rate sustains."""
    batch = np.maximum(np.minimum(table.wanted, table.most), 1.0)
    if table.start is not Start.POISSON:
        return batch
    later = later_tokens(table.output_tokens)
    for _ in range(MAX_ITERATIONS):
        turn = alone + later * tpot_s(step_s(step, batch), batch, later, occupied)
        batch = np.clip(table.rate_per_s * turn, 1.0, table.most)
    return batch


def continuous_batching_means(table: Table, step: StepTerms, prefill: PrefillTerms) -> MeanFigures:
    """Means for continuous batching: prompts join the batch as other requests end.

    A prompt waits for prompts that arrived just before it, as in an M/D/1 queue. If all requests arrive at once, a
    prompt waits for half of them on average. Requests beyond the batch wait for a free slot.
    """
    later = later_tokens(table.output_tokens)
    occupied = occupancy_s(seconds_per_prompt(prefill, table.chunk_tokens, None), table.step.pipeline_parallel)
    alone = idle_first_token_s(prefill, table.chunk_tokens)
    batch = running_sequences(table, step, alone, occupied)
    decode = step_s(step, batch)
    idle = np.maximum(alone - occupied, 0.0) if table.start is not Start.OFFLINE else 0.0
    rate = batch / (idle + np.maximum(batch, 1.0) * occupied + later * decode)
    busy = np.minimum(rate * occupied, MAX_BUSY_SHARE)
    most = (batch - 1) / 2
    together = np.where(table.publishes_medians & (table.begins < 0.5), 0.0, table.begins) * most
    wait = np.maximum(np.minimum(busy / (2 * (1 - busy)), most), together) * occupied
    first = alone + decode_step_wait_s(prefill.new_tokens, table.chunk_tokens, decode, batch) + wait
    if table.start is Start.POISSON:
        rate = np.minimum(rate, table.rate_per_s)
    else:
        first = first + np.maximum(table.wanted - table.most, 0.0) / rate
    return MeanFigures(first, tpot_s(decode, batch, later, occupied), rate)


def closed_form_metrics(table: Table, achieved: Achieved) -> dict[str, Column]:
    """Every metric of every case in closed form."""
    step = step_terms(table.step, achieved, served=table.served / table.stream_interval)
    prefill = prefill_terms(table.prefill, achieved, served=table.served)
    found = (static_batch_means if table.start is Start.STATIC else continuous_batching_means)(table, step, prefill)
    requests, several = found.rate_per_s * table.replicas, table.output_tokens > 1
    return {
        "output_tokens_per_s": requests * table.output_tokens,
        "total_tokens_per_s": requests * (table.input_tokens + table.output_tokens),
        "tpot_s": found.tpot_s,
        "decode_tokens_per_s": 1 / found.tpot_s,
        "ttft_s": found.ttft_s,
        "prefill_tokens_per_s": table.prefill.new_tokens / (found.ttft_s - prefill.request_s),
        "e2e_s": found.ttft_s + np.where(several, later_tokens(table.output_tokens), 0.0) * found.tpot_s,
        **{metric: found.ttft_s if metric.startswith("ttft") else found.tpot_s for metric in TAILS},
    }


def predict_metrics(table: Table, achieved: Achieved) -> dict[str, Column]:
    """Every metric of every case: the closed form times the ratio of the simulated run to the closed form."""
    return {m: v * table.taken.get(m, 1.0) for m, v in closed_form_metrics(table, achieved).items()}
