"""Benchmark plan of two pools: one replica of each pool behind a router, under the load that such a pair carries."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace

from app.sizing.answer.benchmark import (
    BenchmarkPlan,
    machines_per_replica,
    rent_usd,
    serving_benchmark,
    serving_minutes,
    serving_places,
)
from app.sizing.hardware.benchmarks import READY, STOP, Benchmark, Places, Server, fill_template
from app.sizing.hardware.pool_servers import DECODE, POOL_SERVERS, PREFILL, PoolServers
from app.sizing.question import Deployment, Pools, Question
from app.sizing.result import Estimate, Performance
from app.sizing.workload import InferenceWorkload

CONFIG_FILE = "config.yaml"
WAIT_FOR_POOLS = (
    "until curl -sfo /dev/null $PREFILL_HOST:{port}/{path} && curl -sfo /dev/null $DECODE_HOST:{port}/{path}; "
    "do sleep 5; done; "
)


def pool_pair_share(estimate: Estimate) -> float:
    """Share of the deployment's load that one replica of each pool carries; 1 where it is not known."""
    d, p = estimate.deployment, estimate.performance
    if d.pools is None or p is None or p.pools is None or not p.requests_per_s_capacity:
        return 1.0
    each = (
        load.requests_per_s_capacity / max(1, pool.replicas or 1)
        for load, pool in ((p.pools.prefill, d.pools.prefill), (p.pools.decode, d.pools.decode))
    )
    return min(1.0, min(each) / p.requests_per_s_capacity)


def plan_pools_benchmark(question: Question, estimate: Estimate) -> BenchmarkPlan | None:
    """Benchmark plan of two pools; None where the deployment does not fit or no command covers it."""
    workload, d, p = question.workload, estimate.deployment, estimate.performance
    if not isinstance(workload, InferenceWorkload) or d.pools is None or p is None or not estimate.fits:
        return None
    servers, used = POOL_SERVERS.get(d.engine or ""), serving_benchmark(workload, d)
    ranks = any((pool.data_parallel or 1) > 1 for pool in prefill_and_decode(d.pools))
    if servers is None or used.server is None or d.speculative is not None or (servers.config and ranks):
        return None
    share = pool_pair_share(estimate)
    pair = replace(p, requests_per_s_capacity=(p.requests_per_s_capacity or 0.0) * share)
    part = replace(
        workload,
        in_flight=math.ceil(workload.in_flight * share),
        requests=None if workload.requests is None else math.ceil(workload.requests * share),
    )
    places = {
        name: pool_places(part, replace(pool, engine=d.engine, replicas=1), pair, used, servers, question)
        for name, pool in zip((PREFILL, DECODE), prefill_and_decode(d.pools), strict=True)
    }
    machines = sum(machines_per_replica(pool) for pool in prefill_and_decode(d.pools))
    minutes = math.ceil(serving_minutes(p, question.assumptions))
    nodes = sum(pool.nodes or 1 for pool in prefill_and_decode(d.pools))
    rented = replace(estimate, deployment=replace(d, nodes=nodes))
    return BenchmarkPlan(
        command=pools_command(used, used.server, servers, places),
        rate_expression=used.counts,
        accelerators=sum(pool.accelerators_per_replica or 1 for pool in prefill_and_decode(d.pools)),
        minutes=minutes,
        usd=rent_usd(rented, machines, minutes),
    )


def prefill_and_decode(pools: Pools) -> tuple[Deployment, Deployment]:
    """Prefill pool and decode pool."""
    return pools.prefill, pools.decode


def pool_places(
    workload: InferenceWorkload,
    pool: Deployment,
    p: Performance,
    used: Benchmark,
    servers: PoolServers,
    question: Question,
) -> Places:
    """Placeholders for one replica of a pool under the load of the pair, with a config file if the engine needs one."""
    places = serving_places(workload, pool, p, used, question.assumptions)
    return {**places, "config": CONFIG_FILE} if servers.config else places


def pools_command(used: Benchmark, server: Server, servers: PoolServers, places: dict[str, Places]) -> str:
    """One command line for every machine; `$ROLE` selects what a machine does.

    Prefill and decode start their server. Any other role waits for both, starts the router and measures.
    """
    ready = WAIT_FOR_POOLS.format(port=server.port, path=server.path) + servers.router
    measured = (
        ready + READY.format(port=server.port, path=server.path) + fill_template(used.load, places[DECODE]) + STOP
    )
    roles = " ".join(
        f"{role}) {pool_server_command(server, servers, role, places[role])} ;;" for role in (PREFILL, DECODE)
    )
    return f"case $ROLE in {roles} *) {measured} ;; esac"


def pool_server_command(server: Server, servers: PoolServers, role: str, places: Places) -> str:
    """Command that starts the server of a pool's replica."""
    written = (
        f"echo {shlex.quote(json.dumps(servers.config[role]))} > {CONFIG_FILE}; " if role in servers.config else ""
    )
    parts = (
        servers.environment.get(role, ""),
        fill_template(server.command, places),
        servers.flags[role],
        servers.listen_flags,
    )
    return written + " ".join(part for part in parts if part)
