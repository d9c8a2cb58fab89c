"""Simulates a published run with its scheduler: the same requests from the same start, in the published statistic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.sizing.columns import Column, Quantiles
from app.sizing.hardware.achieved import Achieved
from app.sizing.serving.simulation import Requests, SimulationResult, simulate_replica
from app.sizing.serving.simulation.record import ARRIVALS, OUTPUTS, PROMPTS, draw_uniforms
from app.sizing.serving.simulation.tables import build_replica
from calibration.serving.cases import ServingCase
from calibration.serving.formulas import closed_form_metrics, table_of
from calibration.serving.measured import TAILS
from calibration.serving.runs import Start, Statistic

SEED = 16
OVERLAPPING_STARTS = (Start.BURST, Start.OFFLINE, Start.POISSON)  # runs whose requests overlap
# Length of runs without a published number of requests: multiples of the requests in flight, batches, arrivals.
DEFAULT_TURNS, DEFAULT_BATCHES, DEFAULT_ARRIVALS = 10, 4, 500


@dataclass(frozen=True, slots=True)
class SentRequests:
    """Requests of one replica; requests `warm` to `wanted` are counted."""

    requests: Requests
    warm: int
    wanted: int


def requests_overlap(case: ServingCase) -> bool:
    """Whether requests of the run overlap, so that it is more than one request or one batch at a time."""
    return case.run.start in OVERLAPPING_STARTS and (case.wanted > 1 or case.run.start is Start.POISSON)


def starts_as(case: ServingCase, start: Start) -> bool:
    """Whether a run starts this way and its requests overlap."""
    return case.run.start is start and requests_overlap(case)


def sent_to(case: ServingCase) -> SentRequests:
    """The requests of a run; for a queue without a published end, its middle counts."""
    start, said = case.run.start, case.requests_per_replica
    most = int(case.most * case.ranks)
    if start is Start.OFFLINE:
        count = said or DEFAULT_BATCHES * most
    else:
        count = said or (DEFAULT_ARRIVALS if start is Start.POISSON else DEFAULT_TURNS * int(case.wanted))
    open_ended = start is Start.OFFLINE and not said
    arrivals = np.zeros(0)
    if start is Start.POISSON:
        arrivals = np.cumsum(-np.log1p(-draw_uniforms(SEED, ARRIVALS, count))) / case.rate_per_s
    requests = Requests(
        arrival_s=arrivals,
        in_flight=count if start is Start.OFFLINE else int(case.wanted),
        input_tokens=case.prompts.draw_lengths(Quantiles(draw_uniforms(SEED, PROMPTS, count))),
        output_tokens=np.maximum(case.outputs.draw_lengths(Quantiles(draw_uniforms(SEED, OUTPUTS, count))), 1),
        prefix_tokens=np.zeros(count, np.int64),
        shared_tokens=0,
        reuse_gap_s=0.0,
    )
    return SentRequests(requests, most, count - most) if open_ended else SentRequests(requests, 0, count)


def figures_of(case: ServingCase, sent: SentRequests, found: SimulationResult) -> dict[str, float]:
    """Every metric of a simulated run, in the statistic that is published."""
    counted = slice(sent.warm, sent.wanted)
    outputs, prompts = sent.requests.output_tokens[counted], sent.requests.input_tokens[counted]
    first = found.first_token_s - found.arrival_s
    each = (found.finish_s - found.first_token_s) / np.maximum(outputs - 1, 1)
    rate = case.replicas / found.lasts_s
    tpot = published_statistic(each, case)
    return {
        "output_tokens_per_s": float(outputs.sum()) * rate,
        "total_tokens_per_s": float(outputs.sum() + prompts.sum()) * rate,
        "ttft_s": published_statistic(first, case),
        "tpot_s": tpot,
        "decode_tokens_per_s": 1 / tpot if tpot else math.inf,
        "e2e_s": float(np.mean(found.finish_s - found.arrival_s)),
        **{m: float(np.quantile(first if m.startswith("ttft") else each, level)) for m, level in TAILS.items()},
    }


def published_statistic(values: Column, case: ServingCase) -> float:
    """The statistic of latencies that the source of a run publishes."""
    return float(np.median(values) if case.run.statistic is Statistic.P50 else np.mean(values))


def simulate_case(case: ServingCase, achieved: Achieved) -> dict[str, float]:
    """Every metric of one simulated case; `achieved` has one row."""
    streamed = replace(achieved, stream_token_s=achieved.stream_token_s / case.run.stream_interval)
    served = float(case.run.served)
    replica = build_replica(case.replica, streamed, case.scheduler, pool_bytes=case.pool_bytes, served=served)
    sent = sent_to(case)
    return figures_of(case, sent, simulate_replica(replica, sent.requests, warm=sent.warm, wanted=sent.wanted))


def add_run_ratios(cases: Sequence[Any], achieved: Achieved) -> list[Any]:
    """The cases with the ratio of simulated to closed-form metrics at these coefficients; split pools are unchanged."""
    found = list(cases)
    for start in OVERLAPPING_STARTS:
        rows = [i for i, case in enumerate(cases) if isinstance(case, ServingCase) and starts_as(case, start)]
        formulas = (
            closed_form_metrics(table_of([cases[i] for i in rows]), achieved.take(np.array(rows))) if rows else {}
        )
        for place, i in enumerate(rows):
            values = simulate_case(cases[i], achieved.take(np.array([i])))
            taken = {m: values[m] / float(formulas[m][place]) for m in cases[i].measured}
            found[i] = replace(cases[i], taken=taken)
    return found
