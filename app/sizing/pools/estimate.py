"""A deployment of two pools, judged: each as a service of its part, what is left open of it chosen, then both together.

A prompt is read in one pool and its cache sent to the other, which lets it in where it has room. The first token comes
with the prompt's last step, and is seen when the other pool goes on from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.sizing.hardware.engines import ENGINES, engine_named
from app.sizing.hardware.engines.scheduling import Policy, SchedulerSettings
from app.sizing.pools.balance import balanced
from app.sizing.pools.checks import check_pools
from app.sizing.pools.ends import first_wave, rate_of, run_of, with_first_wave, with_volume
from app.sizing.pools.joined import Both, joined, unanswered
from app.sizing.pools.parts import at_limit_s, decode_of, handed_over, prefill_of, reserve_s
from app.sizing.pools.transfer import plan_of, transfer_of
from app.sizing.question import Deployment, Pools, Question
from app.sizing.result import Estimate
from app.sizing.snapshot import Snapshot
from app.sizing.values.pools import Transfer
from app.sizing.workload import InferenceWorkload, Load

Judge = Callable[[Question, Deployment, Snapshot], Estimate]
SPLITTING = tuple(name for name, engine in ENGINES.items() if engine.splits_pools)
MIXED = SchedulerSettings(policy=Policy.MIXED)  # of the pool that decodes: what comes read takes no step of its own


def judge_pools(question: Question, deployment: Deployment, pools: Pools, market: Snapshot, judge: Judge) -> Estimate:
    """Both pools and what lies between them; `judge` is how one deployment is judged.

    Raises Conflict for pools that contradict one another or the rest.
    """
    workload = check_pools(question, deployment, pools, SPLITTING)

    def of(part: InferenceWorkload, pool: Deployment) -> Estimate:
        allowed = replace(question.constraints, engines=SPLITTING)
        return judge(replace(question, workload=part, constraints=allowed), pool, market)

    later = question.assumptions.split_first_token_factor

    def reading_of(part: InferenceWorkload, beside_s: float, pool: Deployment) -> Estimate:
        return handed_over(of(prefill_of(part, beside_s, later), pool), later)

    asked, steady = asked_of(deployment, pools), replace(workload, requests=None)  # of a run that ends most is steady
    first = chosen(steady, asked, of, reading_of, market)
    if not (first.prefill.fits and first.decode.fits):
        return unanswered(deployment, first)
    layouts = Pools(laid_out(first.prefill, asked.prefill), laid_out(first.decode, asked.decode))
    transfer = between(question, workload, first, market)
    reading, writing, rate_per_s = workload, workload, None
    if workload.load is Load.CLOSED:
        reading, writing, rate_per_s = balanced(steady, first.prefill, first.decode, transfer.seconds)
    prefill = reading_of(reading, reserve_s(workload) + transfer.seconds, layouts.prefill)
    before_s = at_limit_s(prefill.performance, workload.slo.percentile) + transfer.seconds
    decode = of(decode_of(writing, before_s), layouts.decode)
    found = Both(prefill, decode)
    again = between(question, workload, found, market)
    if again.link != transfer.link:
        complete = Pools(prefill.deployment, decode.deployment)
        return judge_pools(question, replace(deployment, pools=complete), complete, market, judge)
    if workload.load in (Load.BATCH, Load.OFFLINE) and prefill.performance and decode.performance:
        rate_per_s = rate_of(workload, prefill.performance, decode.performance, again)
    if workload.requests is not None and rate_per_s is not None:
        burst = reading_of(first_wave(workload), reserve_s(workload) + transfer.seconds, layouts.prefill)
        found, rate_per_s = as_run(workload, found, burst, again, rate_per_s)
    return with_volume(question, workload, joined(workload, deployment, found, again, rate_per_s), found.each)


def as_run(
    workload: InferenceWorkload, found: Both, burst: Estimate, transfer: Transfer, rate_per_s: float
) -> tuple[Both, float]:
    """Both pools in a run that ends, and what they answer per second of all of it."""
    assert workload.requests is not None and burst.performance is not None and found.decode.performance is not None
    run = run_of(workload, burst.performance, found.decode.performance, transfer.seconds, rate_per_s)
    return Both(with_first_wave(found.prefill, run), found.decode), workload.requests / run.seconds


def asked_of(deployment: Deployment, pools: Pools) -> Pools:
    """What is asked of each pool: what it does not say itself is as the deployment says."""
    inherited = ("engine", "engine_version", "weight_format", "kv_format", "memory_fraction")
    placed = ("system", "provider", "region", "pricing_model", "instance_type")

    def one(pool: Deployment) -> Deployment:
        names = (*inherited, *placed) if pool.accelerator == deployment.accelerator else inherited
        said = {name: getattr(deployment, name) for name in names if getattr(pool, name) is None}
        return replace(pool, **said)

    kv_format = pools.prefill.kv_format or pools.decode.kv_format or deployment.kv_format
    prefill, decode = one(replace(pools.prefill, kv_format=kv_format)), one(replace(pools.decode, kv_format=kv_format))
    decode = replace(decode, speculative=deployment.speculative, scheduler=MIXED.with_settings(decode.scheduler))
    return Pools(prefill, decode)


def chosen(
    workload: InferenceWorkload,
    asked: Pools,
    of: Callable[[InferenceWorkload, Deployment], Estimate],
    reading_of: Callable[[InferenceWorkload, float, Deployment], Estimate],
    market: Snapshot,
) -> Both:
    """Both pools as they are chosen each for itself, on one engine and with caches in one format: the decode pool's, or
    the first that runs in both.
    """
    decode = of(decode_of(workload, 0.0), asked.decode)
    tried = (decode.deployment.engine, *SPLITTING) if asked.prefill.engine is None else (asked.prefill.engine,)
    found = None
    for engine in dict.fromkeys(tried):
        if engine is None:
            continue
        if found is not None:
            decode = of(decode_of(workload, 0.0), replace(asked.decode, engine=engine))
        reading = replace(asked.prefill, engine=engine, kv_format=decode.deployment.kv_format)
        reading = replace(reading, max_batch=reading.max_batch or most_prompts(reading, market))
        found = Both(reading_of(workload, reserve_s(workload), reading), decode)
        if found.prefill.fits and found.decode.fits:
            return found
    assert found is not None
    return found


def most_prompts(pool: Deployment, market: Snapshot) -> int:
    """Prompts that run at once where nobody says: as many as its engine lets in, because none of them stays."""
    accelerator = market.accelerators[market.accelerator_index[pool.accelerator]]
    scheduling = engine_named(pool.engine or "").scheduling_at(pool.engine_version)
    return scheduling.on(accelerator.memory_bytes or 0.0, accelerator.family).max_sequences


def laid_out(found: Estimate, asked: Deployment) -> Deployment:
    """A pool with everything that was chosen of it but how many there are, where that was left open."""
    counts = ("replicas", "spare_replicas", "nodes", "total_accelerators")
    open_counts = {name: getattr(asked, name) for name in counts}
    return found.deployment if asked.sized else replace(found.deployment, **open_counts)


def between(question: Question, workload: InferenceWorkload, found: Both, market: Snapshot) -> Transfer:
    """What handing over takes between both pools as they stand."""
    prefill, decode = found.prefill.deployment, found.decode.deployment
    plans = plan_of(question, workload, prefill, market), plan_of(question, workload, decode, market)
    replicas = float(prefill.replicas or 1), float(decode.replicas or 1)
    total = float((prefill.total_accelerators or 0) + (decode.total_accelerators or 0))
    return transfer_of(workload, *plans, replicas, total, question.assumptions)
