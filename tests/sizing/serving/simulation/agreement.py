"""Random workloads on plans of the real catalogue, as the closed form has them and as they are simulated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Quantiles, at
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.formula import suspend_recording
from app.sizing.hardware.engines.record import Policy, Preemption
from app.sizing.hardware.tables import POLICIES, PREEMPTIONS, scheduler_at
from app.sizing.question import Question
from app.sizing.serving.capacity import StreamOperatingPoint, StreamSpeed
from app.sizing.serving.collectives import link_use
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import AUTOREGRESSIVE
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import enumerate_allowed_plans
from app.sizing.serving.simulation import Replica, SimulationResult, simulate_replica
from app.sizing.serving.simulation.record import OUTPUTS, PROMPTS, DrawnRequests, draw_uniforms, unit_arrivals
from app.sizing.serving.simulation.tables import build_replica, replica_work
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import registered
from tests.sizing.serving.given import varied

MODELS = (
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V3",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "Qwen/Qwen3-32B",
    "openai/gpt-oss-120b",
    "google/gemma-3-27b-it",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
)
PROMPT_TOKENS = (64, 200, 500, 1000, 2000, 4000, 8000, 16000)
OUTPUT_TOKENS = (32, 100, 250, 500, 1000, 2000)
SPREADS = (1.3, 2.0, 3.0)  # p95 over mean; without any a closed loop stays in step for ever
MOST_TOKENS = 131_072
REQUESTS, WARM_SHARE = 4000, 0.2
ROUNDS = 6  # of a closed loop before it is measured: what began together is out of step
BEYOND_FULL, MOST_IN_FLIGHT = 2, 1500  # in flight where a replica is saturated
ASSUMED = Assumptions()


@dataclass(frozen=True, slots=True)
class Case:
    """One replica, and what it is to do; `share` of its saturation, of a request rate."""

    workload: InferenceWorkload
    plans: Plans  # one row
    share: float

    @property
    def is_open(self) -> bool:
        return self.workload.load is Load.OPEN

    @property
    def prompts_first(self) -> bool:
        return bool(self.plans.scheduling_rules.policy[0] == POLICIES.index(Policy.PREFILL_FIRST))


@dataclass(frozen=True, slots=True)
class Compared:
    """Ratios of the closed form to the simulation."""

    case: Case
    tpot_p50: float
    ttft_p50: float
    tpot_mean: float
    ttft_mean: float
    capacity: float


def plans_for(catalog: Catalog, name: str) -> Plans:
    asked = varied(model=registered(name))
    return enumerate_allowed_plans(Search.start(Question(asked), catalog, Rejections(catalog.accelerators)).of(asked))


def lengths(rng: np.random.Generator, means: tuple[int, ...]) -> Lengths:
    mean = float(rng.choice(means))
    return Lengths(mean, mean * float(rng.choice(SPREADS)))


def cases(catalog: Catalog, count: int, *, seed: int, models: tuple[str, ...] = MODELS) -> list[Case]:
    """Replicas on which a mean request fits, half of them with a number in flight, half with a rate."""
    rng = np.random.default_rng(seed)
    found: list[Case] = []
    plans = {name: plans_for(catalog, name) for name in models}
    while len(found) < count:
        name = models[rng.integers(len(models))]
        prompts, answers = lengths(rng, PROMPT_TOKENS), lengths(rng, OUTPUT_TOKENS)
        is_open = bool(rng.integers(2))
        workload = varied(
            model=registered(name),
            load=Load.OPEN if is_open else Load.CLOSED,
            in_flight=0.0 if is_open else float(2 ** rng.integers(10)),
            input_tokens=prompts,
            output_tokens=answers,
            max_context_tokens=min(prompts.quantile(99.9) + answers.quantile(99.9), MOST_TOKENS),
            slo=Slo(None, None, None, 50),
        )
        plan = scheduled(plans[name].take(rng.integers(len(plans[name]), size=1)), rng)
        memory = AUTOREGRESSIVE.estimate_memory(workload, plan, ASSUMED, Settings())
        share = float(rng.uniform(0.2, 0.9))
        if plan.on_host is None and memory.fits[0] and memory.sequences[0] > 1:
            found.append(Case(workload, plan, share))
    return found


def scheduled(plans: Plans, rng: np.random.Generator) -> Plans:
    """One plan under a scheduler of chance."""
    rules = plans.stacks.table.scheduling.take(plans.stacks.rows)
    policy, preemption, share = Policy.MIXED, Preemption.RECOMPUTE, 0.0
    kind = rng.integers(3)
    if kind == 1:
        policy = Policy.PREFILL_FIRST
    elif kind == 2:
        preemption, share = Preemption.NONE, 1.0
    one = np.ones(1)
    rules = replace(
        rules,
        policy=np.array([POLICIES.index(policy)]),
        preemption=np.array([PREEMPTIONS.index(preemption)]),
        output_reserve_share=share * one,
        chunked=np.array([True]),
        planning_lag_steps=float(rng.integers(2)) * one,
        receive_interval_steps=(10.0 if rng.random() < 0.1 else 1.0) * one,
    )
    table = replace(plans.stacks.table.take(plans.stacks.rows), scheduling=rules)
    return replace(plans, stacks=replace(plans.stacks, table=table, rows=np.zeros(1, np.int64)))


def replica(case: Case, memory: ServingMemory) -> Replica:
    plans, workload = case.plans, case.workload
    tokens, sequences = at(memory.max_batched_tokens, 0), at(memory.max_sequences, 0)
    (work,) = replica_work(workload.model, plans, link_use(plans, ASSUMED))
    return build_replica(
        work,
        plans.achieved_rates,
        scheduler_at(plans.stacks.table.scheduling, 0, tokens, sequences),
        pool_bytes=at(memory.kv_pool_bytes, 0),
        overlaps=bool(plans.pipelines_chunks[0]),
    )


def simulated(
    case: Case, r: Replica, *, rate_per_s: float = 0.0, in_flight: int = 0
) -> tuple[SimulationResult, Column]:
    """A steady stretch of the required requests, and the tokens of each after its first."""
    warm = max(int(WARM_SHARE * REQUESTS), ROUNDS * in_flight)
    wanted = warm + max(int((1 - WARM_SHARE) * REQUESTS), 3 * in_flight)
    count = wanted + in_flight
    at_prompts, at_answers = (Quantiles(draw_uniforms(1, stream, count)) for stream in (PROMPTS, OUTPUTS))
    prompts, answers = case.workload.draw_lengths(at_prompts, at_answers)
    answers = np.maximum(np.minimum(answers, MOST_TOKENS - prompts), 1)
    drawn = DrawnRequests(unit_arrivals(1, count, 1.0), prompts, answers, np.zeros(count, np.int64))
    requests = drawn.in_flight(in_flight) if in_flight else drawn.at_rate(rate_per_s)
    later: Column = answers[warm:wanted].astype(np.float64) - 1
    return simulate_replica(r, requests, warm=warm, wanted=wanted), later


def operated(case: Case, workload: InferenceWorkload) -> tuple[ServingMemory, StreamSpeed, StreamOperatingPoint]:
    """The closed form."""
    memory = AUTOREGRESSIVE.estimate_memory(workload, case.plans, ASSUMED, Settings())
    speed = AUTOREGRESSIVE.estimate_speed(
        workload, memory, AUTOREGRESSIVE.unloaded_latency(workload, case.plans, memory, ASSUMED), ASSUMED
    )
    return memory, speed, AUTOREGRESSIVE.operating_point(workload, memory, speed, np.ones(1))


def compared(case: Case) -> Compared:
    """The closed form and the simulation compared."""
    with suspend_recording():
        memory = AUTOREGRESSIVE.estimate_memory(case.workload, case.plans, ASSUMED, Settings())
        r = replica(case, memory)
        full = at(memory.sequences, 0) * at(case.plans.data_parallel, 0)
        most, _ = simulated(case, r, in_flight=int(min(BEYOND_FULL * full, MOST_IN_FLIGHT)))
        saturation = most.finished / most.lasts_s
        workload = replace(case.workload, peak_per_s=case.share * saturation)
        _, speed, operation = operated(case, workload)
        load = {"rate_per_s": workload.peak_per_s} if case.is_open else {"in_flight": int(workload.in_flight)}
        found, later = simulated(case, r, **load)
    first, streamed = found.first_token_s - found.arrival_s, found.finish_s - found.first_token_s
    tokens = streamed[later > 0] / later[later > 0]
    return Compared(
        case,
        tpot_p50=at(operation.tpot_p50_s, 0) / float(np.median(tokens)),
        ttft_p50=at(operation.ttft_p50_s, 0) / float(np.median(first)),
        tpot_mean=at(operation.tpot_mean_s, 0) / float(streamed.sum() / later.sum()),
        ttft_mean=at(operation.ttft_mean_s, 0) / float(first.mean()),
        capacity=at(speed.saturation_per_s, 0) / saturation,
    )


def apart(found: list[Compared], name: str, percentile: float = 50) -> float:
    """How far apart the two are, as a share, at a percentile of cases."""
    ratios = np.array([getattr(c, name) for c in found])
    distance = np.maximum(ratios, 1 / np.maximum(ratios, 1e-12)) - 1
    return float(np.sort(distance)[min(int(percentile / 100 * len(distance)), len(distance) - 1)])
