"""Sizes prefill pools in the search: each replica is a G/G/1 queue that reads prompts one after another.

The general service search models decoding in the same replica; a prefill pool has none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.columns import Column
from app.sizing.decisions.rejections import Rejections
from app.sizing.formula import formula, suspend_recording
from app.sizing.question import Question
from app.sizing.serving.measured import LEAST_CAPACITY_PER_S, Settings
from app.sizing.serving.options import Options, within_constraints
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import confidence_margins, required_replicas, search_plans, with_replica_count
from app.sizing.snapshot import Catalog
from app.sizing.units import LEAST_PER_S
from app.sizing.workload import InferenceWorkload, Slo

HALVINGS = 24


@formula(unit="1", source="G/G/1 queue in heavy traffic (Kingman 1962; Kleinrock 1975)")
def late_share(load: Column, wait_s: Column, service_s: Column, variation: float) -> Column:
    """Share of requests that wait longer than `wait_s` for one server.

    The wait is exponential given that the server is busy.

    Parameters:
        load: utilization of the server, from 0 to 1.
        wait_s: wait that is compared, in seconds.
        service_s: mean service time, in seconds.
        variation: squared coefficients of variation of arrivals and service, added.
    Limits: one server; exact for exponential service, for which `variation` is 2.
    Check: at half load, waits of more than twice the mean service time.
        >>> round(float(late_share(0.5, 2.0, 1.0, 2.0)), 3)
        0.184
    """
    return load * np.exp(-2 * (1 - load) * np.maximum(wait_s, 0.0) / np.maximum(service_s * variation, 1e-12))


def max_load(wait_s: Column, service_s: Column, variation: float, share: float) -> Column:
    """Largest utilization at which at most `share` of requests wait longer than `wait_s`; 0 where no wait is
    allowed.
    """
    low, high = np.zeros(len(wait_s)), np.ones(len(wait_s))
    with suspend_recording():
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            within_share = late_share(middle, wait_s, service_s, variation) <= share
            low, high = np.where(within_share, middle, low), np.where(within_share, high, middle)
    return np.where(wait_s > 0, low, 0.0)


def prefill_options(
    question: Question, workload: InferenceWorkload, plans: Plans, catalog: Catalog, rejections: Rejections
) -> Options:
    """Options of a prefill pool, with enough replicas to keep its queue within the TTFT limit."""
    slo, prompt = workload.slo, workload.input_tokens
    unlimited = Slo(None, None, None, slo.percentile)
    options = search_plans(question, replace(workload, slo=unlimited), plans, catalog, rejections)
    if not len(options) or slo.ttft_s is None:
        return options
    margins = confidence_margins(question, workload, options.plans, catalog)
    tokenise_s = options.plans.achieved_rates.tokenise_token_s * prompt.mean  # the server tokenizes prompts one by one
    service_s = np.maximum(1 / np.maximum(options.capacity_per_s * margins.rate, LEAST_PER_S), tokenise_s)
    long_s = service_s * max(1.0, workload.long_prompt(slo.percentile) / prompt.mean)
    variation = workload.burstiness**2 + prompt.squared_variation
    load = max_load(slo.ttft_s / margins.ttft - long_s, service_s, variation, 1 - slo.percentile / 100)
    capacity = load / (service_s * margins.rate)
    able = np.flatnonzero(capacity > LEAST_CAPACITY_PER_S)
    options, capacity = options.take(able), capacity[able]
    if not len(options):
        return options
    replicas = required_replicas(question, workload, options.plans, capacity, options.slo_batch, Settings())
    again = with_replica_count(question, workload, replace(options, capacity_per_s=capacity), replicas)
    return again.take(within_constraints(question, again, rejections))
