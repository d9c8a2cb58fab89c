"""Replicas behind one router share a queue: exact where theory is exact, one replica unchanged, pooled never worse than
apart. Errors of latency and of speed count together.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.files import read_rows
from app.sizing.columns import Column
from app.sizing.decisions.placement import planned_capacity_per_s
from app.sizing.evidence import lower_is_better
from app.sizing.result import BillFactor
from app.sizing.serving.bill import rounding_text
from app.sizing.serving.capacity import queue_tail_s
from app.sizing.serving.load_curves import (
    confident_loads_per_s,
    curves_of_replicas,
    draw_requests,
    open_window,
    pooled_replicas,
    pooled_window,
)
from app.sizing.serving.margins import RATE_CORRELATIONS, Margins, jointly_confident_per_s
from app.sizing.serving.simulation import Routed, choose_replicas
from app.sizing.serving.simulation.record import Counts
from app.sizing.serving.steady_state import queued_share, shared_server_wait_s
from app.sizing.workload import Load, PrefixHits, Router
from tests.examples import col
from tests.sizing.serving.given import STEADY, varied
from tests.sizing.serving.simulation.given import one_at_a_time, requests, simulated, ttft_s
from tests.sizing.serving.test_load_curves import curve, limit

COUNT = 3_000_000
LOADS = ((1, 0.8), (2, 0.7), (2, 0.9), (4, 0.8), (8, 0.85))


def erlang_c(servers: int, load: float) -> float:
    """Probability that a request waits in M/M/c, at a load of each server."""
    offered, blocked = servers * load, 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return blocked / (1 - load * (1 - blocked))


def exponential(seed: int) -> Column:
    return np.random.default_rng(seed).exponential(1.0, COUNT)


def queue_waits(arrival_s: Column, service_s: Column, chosen: Counts) -> Column:
    """Waits of first come, first served at the chosen servers (Lindley 1952)."""
    waits = np.zeros(len(chosen))
    for server in range(int(chosen.max()) + 1):
        (rows,) = np.nonzero(chosen == server)
        work = np.cumsum(service_s[rows]) - service_s[rows] - arrival_s[rows]
        waits[rows] = work - np.minimum.accumulate(work)
    return waits


def chosen(arrival_s: Column, service_s: Column, servers: int) -> Counts:
    """The server of each request behind a router that knows how long every prompt takes; there are no answers."""
    micros, none = np.rint(service_s * 1e6).astype(np.int64), np.zeros(len(service_s), np.int64)
    return choose_replicas(Routed(arrival_s, micros, none, none, 1e-6, 0.0, 0.0), servers).replica


@pytest.mark.parametrize(("servers", "load"), LOADS)
def test_waits_behind_the_router_are_those_of_one_queue_before_all_servers(servers: int, load: float) -> None:
    """M/M/c by Erlang C and M/D/c by Cosmetatos (1976), exact for one server, within 2 %."""
    arrival_s, exact_s = np.cumsum(exponential(0)) / (servers * load), erlang_c(servers, load) / (servers * (1 - load))
    times = exponential(2)
    waits = queue_waits(arrival_s, times, chosen(arrival_s, times, servers))
    assert waits.mean() == pytest.approx(exact_s, rel=0.02)
    assert (waits > 0).mean() == pytest.approx(erlang_c(servers, load), rel=0.02)
    same = np.ones(COUNT)
    fixed = queue_waits(arrival_s, same, chosen(arrival_s, same, servers))
    root = math.sqrt(4 + 5 * servers) - 2
    assert fixed.mean() == pytest.approx(
        exact_s / 2 * (1 + (1 - load) * (servers - 1) * root / (16 * servers * load)), rel=0.02
    )


@pytest.mark.parametrize(("servers", "load"), [(k, r) for k, r in LOADS if r >= 0.7])
def test_the_closed_form_is_near_erlang_c(servers: int, load: float) -> None:
    share = queued_share(col(load), col(1), servers)
    wait_s = shared_server_wait_s(col(load), col(load), col(1.0), col(1), col(1.0), servers)
    assert share[0] == pytest.approx(erlang_c(servers, load), rel=0.06)
    assert wait_s[0] == pytest.approx(erlang_c(servers, load) / (servers * (1 - load)), rel=0.06)
    tail_s = math.log(erlang_c(servers, load) / 0.05) / (servers * (1 - load))
    assert queue_tail_s(wait_s, share, 95.0)[0] == pytest.approx(tail_s, rel=0.06)


def test_one_replica_gets_all_requests_as_before() -> None:
    sent, server = draw_requests(STEADY, 500), one_at_a_time()
    pooled, alone = pooled_window(server, sent, 3.0, 1, 0.5), open_window(sent, 3.0)
    for own, every in zip(pooled.requests, alone.requests, strict=True):
        assert np.asarray(own).tolist() == np.asarray(every).tolist()


@pytest.mark.parametrize("load", [0.6, 0.85, 0.95])
def test_pooled_waits_are_never_longer_than_apart(load: float) -> None:
    """A server that computes one prompt of 10 ms at a time: more of them behind one router wait less."""
    server, waits = one_at_a_time(linear_s=np.full(200, 0.01)), []
    for pooled in (1, 2, 4, 8):
        sent = draw_requests(varied(output_tokens=replace(STEADY.output_tokens, mean=1.0, p95=1.0)), 4000 * pooled)
        window = pooled_window(server, sent, load / 0.01, pooled, load)
        alike = requests(1, 1, count=len(window.requests.arrival_s), arrival_s=window.requests.arrival_s)
        waits.append(float(np.quantile(ttft_s(simulated(server, alike)), 0.95)))
    assert all(more <= less * 1.02 for less, more in pairwise(waits))
    assert waits[-1] < 0.8 * waits[0]


def test_long_answers_do_not_make_the_arrivals_at_a_replica_burstier() -> None:
    """A router does not know how long an answer will be; requests to one of eight replicas come at more even times."""
    uneven = varied(output_tokens=replace(STEADY.output_tokens, mean=640.0, p95=2500.0))
    server = one_at_a_time(linear_s=np.full(200, 1e-5))
    window = pooled_window(server, draw_requests(uneven, 16_000), 0.8, 8, 0.8)
    gaps = np.diff(np.asarray(window.requests.arrival_s))
    assert gaps.std() < 0.8 * gaps.mean()


def test_five_replicas_are_simulated_as_six_and_seven_as_eight() -> None:
    server, pools = one_at_a_time(), np.array([4, 5, 6, 7, 8])
    four, five, six, seven, eight = curves_of_replicas(STEADY, [server] * 5, np.full(5, 1), pools, 400)
    assert five is six and seven is eight
    assert len({id(four), id(six), id(eight)}) == 3


def test_which_routers_share_a_queue() -> None:
    replicas = col(1, 3, 5, 100)
    assert pooled_replicas(STEADY, replicas).tolist() == [1, 3, 5, 8]
    for router in (Router.RANDOM, Router.ROUND_ROBIN, Router.PREFIX_AWARE):
        assert pooled_replicas(replace(STEADY, router=router), replicas).tolist() == [1, 1, 1, 1]
        assert replace(STEADY, router=router).pool_size(col(0.1)).tolist() == [1]
    assert replace(STEADY, peak_per_s=6.0).pool_size(col(2.0, 12.0)).tolist() == [3, 1]
    closed = replace(STEADY, load=Load.CLOSED, in_flight=8.0)
    assert pooled_replicas(closed, replicas).tolist() == [1, 1, 1, 1]


def test_a_router_that_does_not_know_prefixes_finds_what_all_requests_share() -> None:
    hits = PrefixHits(0.6, 0.2, 30.0)
    assert hits.behind_router(None) == hits.behind_router(Router.PREFIX_AWARE) == hits
    assert hits.behind_router(Router.LEAST_LOADED) == PrefixHits(0.2, 0.2, 30.0)
    assert PrefixHits(0.6, 0.2, 0.0).behind_router(Router.RANDOM).cached_fraction == 0.6  # no session leaves anything


RATES = st.floats(0.01, 100.0)
MARGIN = st.floats(1.0, 4.0)


@given(expected=RATES, late_share=st.floats(0.01, 1.0), margin=MARGIN, correlation=st.floats(0.0, 1.0))
def test_errors_together_cost_no_less_than_the_larger_and_no_more_than_both(
    expected: float, late_share: float, margin: float, correlation: float
) -> None:
    late = expected * late_share
    (found,) = jointly_confident_per_s(col(expected), col(late), col(margin), correlation)
    assert late / margin * (1 - 1e-9) <= found <= min(late, expected / margin) * (1 + 1e-9)
    (both,) = jointly_confident_per_s(col(expected), col(late), col(margin), 1.0)
    assert both == pytest.approx(late / margin)


def test_a_limit_that_an_idle_replica_may_miss_leaves_nothing() -> None:
    assert jointly_confident_per_s(col(2.0), col(0.0), col(1.2), 0.5).tolist() == [0.0]


def test_confidence_counts_each_limit_with_its_own_correlation() -> None:
    margins = Margins(col(1.25), col(1.0), col(2.0), col(0.0))
    found = confident_loads_per_s([curve()], limit(ttft_s=0.8), margins)
    late = curve().load_within_limits(limit(ttft_s=0.8), margins)[0]
    wanted = jointly_confident_per_s(col(4.0), col(late), margins.rate, RATE_CORRELATIONS["ttft"])
    assert found.tolist() == pytest.approx(wanted.tolist())
    assert confident_loads_per_s([curve()], limit(), margins).tolist() == [4.0 / 1.25]


def test_the_correlations_are_those_of_held_out_runs_that_report_both() -> None:
    """Each source weighs as the root of its runs, as for the spreads."""
    worse: dict[str, dict[str, float]] = {}
    source: dict[str, str] = {}
    for row in read_rows("predictions.csv"):
        if row["excluded"] == "false":
            off = math.log(float(row["measured"]) / float(row["held_out"]))
            off /= abs(math.log(float(row["high"]) / float(row["low"])))
            worse.setdefault(row["measurement"], {})[row["metric"]] = off if lower_is_better(row["metric"]) else -off
            source[row["measurement"]] = row["source_key"]
    for name, metric in (("ttft", "ttft_s"), ("tpot", "tpot_s")):
        runs = [key for key, found in worse.items() if {metric, "output_tokens_per_s"} <= found.keys()]
        of = [source[key] for key in runs]
        weight = np.array([of.count(each) ** -0.5 for each in of])
        pairs = np.array([[worse[key][metric], worse[key]["output_tokens_per_s"]] for key in runs]).T
        cov = np.cov(pairs, aweights=weight)
        assert cov[0, 1] / math.sqrt(cov[0, 0] * cov[1, 1]) == pytest.approx(RATE_CORRELATIONS[name], abs=0.05)


def test_the_reserve_and_the_limits_are_two_bounds_and_not_two_factors() -> None:
    assert planned_capacity_per_s(col(5.0), col(10.0), col(1.25), 0.7).tolist() == pytest.approx([5.0])
    assert planned_capacity_per_s(col(5.0), col(8.0), col(1.25), 0.7).tolist() == pytest.approx([4.48])


def test_the_factors_of_a_bill_stand_in_their_order() -> None:
    assert [factor.value for factor in BillFactor] == [
        "predicted",
        "limits",
        "confidence",
        "reserve",
        "redundancy",
        "whole_machines",
    ]


@pytest.mark.parametrize(
    ("machine", "replica", "text"),
    [
        (8.0, 4.0, "machines with fewer than 8 accelerators, smaller replicas or a load that fills them"),
        (2.0, 1.0, "machines with fewer than 2 accelerators or a load that fills them"),
        (1.0, 1.0, "a smaller accelerator or a load that fills them"),
    ],
)
def test_what_removes_the_rounding_is_smaller_than_what_is_there(machine: float, replica: float, text: str) -> None:
    assert rounding_text(machine, replica) == text
