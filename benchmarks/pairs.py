"""`python -m benchmarks.pairs [count] [seed]`: compares the costs of pairs of requests that differ in one respect.

More load, longer texts, tighter limits, a higher confidence and more redundancy must not cost less. More allowed
hardware or software, a better router, cached prefixes, and twice the load at twice the cost must not cost more. 5 %
more of a quantity that costs over 30 % more is a cliff; each is explained. The exit status is 1 if a relation is
violated.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from app.api.questions import build_recommend_question
from app.api.schemas.requests import RecommendRequest
from app.catalog.snapshot import CatalogStore
from app.compiled import compile_simulation
from app.errors import AppError
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from calibration.calibrate import seeded_catalog

Body = dict[str, Any]

TOLERANCE = 0.005  # relative difference in cost that counts as equal
NEAR_TIE = Assumptions().no_result_saving  # largest relative difference in cost that published use may outweigh
CLIFF = 1.3  # ratio of costs above which a small step is a cliff
SMALL_STEP = 1.05  # the small step
ROUNDING = 1e-6  # difference between probabilities that counts as equal
CHANGES_PER_REQUEST = 4  # pairs that share their first request
MIN_IN_FLIGHT = 10  # fewer requests in flight may be personal use, which allows more hardware and formats
FIRM = ["provider", "reseller", "quote", "list"]

CHAT_MODELS = (
    "Llama-3.2-3B-Instruct",
    "Llama-3.1-8B-Instruct",
    "mistralai/Mistral-Nemo-Instruct-2407",
    "Qwen2.5-14B-Instruct",
    "Qwen2.5-32B-Instruct",
    "Llama-3.3-70B-Instruct",
    "Qwen2.5-72B-Instruct",
)
MIXTURES = (
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-235B-A22B",
    "deepseek-ai/DeepSeek-V3",
)
TEXT_ENCODERS = ("BAAI/bge-m3", "BAAI/bge-large-en-v1.5", "intfloat/e5-base-v2", "google-bert/bert-base-uncased")
IMAGE_MODELS = {  # with a typical rate, samples/s, and latency, ms
    "microsoft/resnet-50": (1000, 40),
    "google/vit-base-patch16-224": (500, 60),
    "stabilityai/stable-diffusion-xl-base-1.0": (0.5, 12_000),
    "black-forest-labs/FLUX.1-dev": (0.2, 30_000),
}
RUN_MODELS = ("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-14B", "mistralai/Mixtral-8x7B-v0.1")
ACCELERATORS = (
    "nvidia-l4",
    "nvidia-a10",
    "nvidia-a10g",
    "nvidia-l40s",
    "nvidia-a100-sxm4-40gb",
    "nvidia-a100-sxm4-80gb",
    "nvidia-h100-sxm5-80gb",
    "nvidia-h100-pcie-80gb",
    "nvidia-h200-sxm-141gb",
    "nvidia-b200-sxm-180gb",
    "nvidia-gh200-96gb",
    "nvidia-rtx-pro-6000-blackwell-server",
    "amd-mi300x",
)
# Allowed values of constraints. Both requests of a pair name some of them, so that the longer list allows more.
ALLOWED = {
    "accelerators": ACCELERATORS,
    "providers": ("aws", "gcp", "azure", "lambda", "coreweave", "nebius", "crusoe", "runpod", "hyperstack", "oci"),
    "vendors": ("nvidia", "amd", "intel", "google", "aws"),
    "engines": ("vllm", "sglang", "tensorrt-llm", "lmdeploy", "tgi", "llama.cpp"),
    "weight_formats": ("bf16", "fp16", "fp8", "int8", "int4-awq", "int4-gptq", "nvfp4"),
    "kv_formats": ("bf16", "fp16", "fp8"),
    "pricing_models": ("on_demand", "owned", "spot", "committed_1y", "reserved_1y", "committed_3y"),
}
FRAMEWORKS = ("fsdp", "deepspeed", "megatron", "nemo", "axolotl", "torchtitan", "maxtext", "unsloth")
RATES = ("peak_requests_per_s", "samples_per_s", "average_requests_per_s", "volume_requests", "concurrent_requests")
AMOUNTS = ("training_tokens", "training_samples")
REDUNDANCIES = (None, "n+1", "n+2")
CONFIDENCES = (0.5, 0.65, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests, of which the first must cost at most `times` the second, plus `machines` machines."""

    relation: str
    less: Body
    more: Body
    times: float = 1.0
    machines: int = 0
    is_small: bool = False  # a small step: a cliff is possible


@dataclass(frozen=True, slots=True)
class Outcome:
    """First recommendation of an answer: cost, infinite if there is none, and what it deploys."""

    usd: float
    deployment: Deployment | None = None

    @property
    def replicas(self) -> int:
        """Replicas and spares; 1 for a run."""
        d = self.deployment
        return 0 if d is None else (d.replicas or 1) + (d.spare_replicas or 0)

    @property
    def machine_usd(self) -> float:
        """Cost of one machine, or one prefill and decode machine."""
        d = self.deployment
        return 0.0 if d is None else self.usd / (d.nodes or 1)

    @property
    def layout(self) -> tuple[Any, ...]:
        """Type, machine and layout, without the number of replicas."""
        d = self.deployment
        if d is None:
            return ()
        degrees = (d.accelerators_per_replica, d.tensor_parallel, d.pipeline_parallel)
        sold = (d.system, d.provider, d.instance_type, d.pricing_model)
        return (d.accelerator, d.engine or d.framework, d.weight_format, d.kv_format, *degrees, *sold)

    def __str__(self) -> str:
        d = self.deployment
        if d is None:
            return "no option"
        pools = " in two pools" if d.pools is not None else ""
        degrees = f"tp {d.tensor_parallel} pp {d.pipeline_parallel} {d.engine or d.framework} {d.weight_format or ''}"
        size = f"{d.total_accelerators} x {d.accelerator}, {self.replicas} replicas{pools}, {d.nodes} machines"
        return f"{self.usd:,.4g} USD: {size}, {degrees}, {d.provider} {d.pricing_model}"


class PairRunner:
    """Answers requests of pairs with the catalog of a store, each request once."""

    def __init__(self, catalog_store: CatalogStore) -> None:
        self.store, self.today = catalog_store, datetime.now(UTC).date()
        self.answered: dict[str, Outcome] = {}

    def outcome(self, body: Body) -> Outcome:
        """The first recommendation for a request."""
        key = json.dumps(body)
        if key not in self.answered:
            self.answered[key] = self._answer(body)
        return self.answered[key]

    def question(self, body: Body, **changes: Any) -> Question:
        request = RecommendRequest.model_validate_json(json.dumps(body), strict=True)
        question = build_recommend_question(request, self.store.directory(), self.store, self.today)
        return replace(question, **changes)

    def _answer(self, body: Body) -> Outcome:
        answer = recommend_hardware(self.question(body, first_only=True), self.store.catalog())
        if not answer.recommendations:
            return Outcome(math.inf)
        first = answer.recommendations[0].estimate
        usd = ranked_usd(first)
        return Outcome(math.inf if usd is None else usd, first.deployment)

    def meets_limits(self, body: Body, deployment: Deployment) -> bool:
        """Whether a deployment meets the limits of a request at its confidence."""
        question = self.question(body)
        assurance = estimate_deployment(question, deployment, self.store.catalog()).assurance
        if assurance is None:
            return False
        known = (assurance.fits, assurance.meets_slo, assurance.meets_deadline)
        return all(p is None or p >= question.constraints.confidence - ROUNDING for p in known)

    def reject_reason(self, body: Body, accelerator: str) -> str:
        """Why a type cannot serve a request; empty if it can."""
        question = self.question({**with_limits(body, accelerators=[accelerator]), "include": []})
        answer = recommend_hardware(question, self.store.catalog())
        if answer.recommendations or not answer.rejected:
            return ""
        return f"{answer.rejected[0].code}: {answer.rejected[0].text}"


def ranked_usd(estimate: Estimate) -> float | None:
    """The cost that ranks an option, USD/h, or USD of work that ends.

    Work that ends is ranked by its total at the requested confidence, which is not exceeded with that probability; the
    total of the answer is the median.
    """
    if estimate.cost is None or estimate.cost.usd_total is None or estimate.assurance is None:
        return None if estimate.cost is None else estimate.cost.usd_total or estimate.cost.usd_per_hour
    asked = estimate.assurance.asked
    return next(level.cost for level in estimate.assurance.by_level if level.confidence == asked)


def log_uniform(chance: random.Random, low: float, high: float) -> float:
    """A number between two bounds whose logarithm is uniform, with three digits."""
    return float(f"{10 ** chance.uniform(math.log10(low), math.log10(high)):.3g}")


def random_lengths(chance: random.Random, low: float, high: float) -> Any:
    """A random length: a mean, or a mean and its 95th percentile."""
    mean = round(log_uniform(chance, low, high))
    return mean if chance.random() < 0.6 else {"mean": mean, "p95": round(mean * chance.uniform(1.2, 4))}


def random_service(chance: random.Random, models: tuple[str, ...], prompt: tuple[float, float]) -> Body:
    """A service that generates text."""
    traffic: Body = {
        "input_tokens": random_lengths(chance, *prompt),
        "output_tokens": random_lengths(chance, 30, 1000),
    }
    if chance.random() < 0.25:
        traffic["concurrent_requests"] = round(log_uniform(chance, MIN_IN_FLIGHT, 300))
    else:
        traffic["peak_requests_per_s"] = log_uniform(chance, 0.1, 60)
    if "peak_requests_per_s" in traffic and chance.random() < 0.2:
        traffic["burstiness"] = chance.choice([0.5, 2, 3])
    slo: Body = {"ttft_ms": log_uniform(chance, 300, 8000), "tpot_ms": log_uniform(chance, 15, 150)}
    if chance.random() < 0.2:
        slo = {"e2e_ms": log_uniform(chance, 5000, 120_000)}
    return {
        "phase": "inference",
        "model": chance.choice(models),
        "traffic": traffic,
        "slo": {**slo, "percentile": chance.choice([50, 90, 95, 99])},
    }


def random_chat(chance: random.Random) -> Body:
    return random_service(chance, CHAT_MODELS, (50, 2000))


def random_long_prompts(chance: random.Random) -> Body:
    return random_service(chance, CHAT_MODELS, (3000, 30_000))


def random_mixture(chance: random.Random) -> Body:
    """A service of a mixture of experts."""
    return random_service(chance, MIXTURES, (100, 6000))


def random_agents(chance: random.Random) -> Body:
    """A service of sessions whose prompts are mostly found in the prefix cache."""
    made = random_service(chance, (*CHAT_MODELS, *MIXTURES), (1000, 20_000))
    cached = round(chance.uniform(0.3, 0.95), 2)
    shared = round(cached * chance.choice([0.0, 0.3, 1.0]), 2)
    made["traffic"] |= {"cached_prefix_fraction": cached, "shared_prefix_fraction": shared}
    made["traffic"] |= {"turn_gap_s": log_uniform(chance, 1, 300)}
    return made


def random_single_pass(chance: random.Random) -> Body:
    """A service of a model that answers in one pass."""
    if chance.random() < 0.5:
        model, (rate, latency_ms) = chance.choice(list(IMAGE_MODELS.items()))
        traffic = {"samples_per_s": float(f"{rate * log_uniform(chance, 0.1, 10):.3g}")}
    else:
        model, latency_ms = chance.choice(TEXT_ENCODERS), 200
        traffic = {"peak_requests_per_s": log_uniform(chance, 1, 2000), "output_tokens": 0}
        traffic["input_tokens"] = round(log_uniform(chance, 20, 500))
    slo = {
        "e2e_ms": float(f"{latency_ms * log_uniform(chance, 0.4, 4):.3g}"),
        "percentile": chance.choice([50, 95, 99]),
    }
    return {"phase": "inference", "model": model, "traffic": traffic, "slo": slo}


def random_offline(chance: random.Random) -> Body:
    """Offline work with a volume, mostly with a deadline."""
    traffic: Body = {"offline": True, "input_tokens": random_lengths(chance, 100, 8000)}
    traffic |= {"output_tokens": random_lengths(chance, 30, 1000), "volume_requests": log_uniform(chance, 1e4, 1e7)}
    if chance.random() < 0.8:
        traffic["deadline_hours"] = log_uniform(chance, 4, 200)
    return {"phase": "inference", "model": chance.choice((*CHAT_MODELS, *MIXTURES)), "traffic": traffic}


def random_run(chance: random.Random) -> Body:
    """A training run with a deadline."""
    if chance.random() < 0.2:
        amount = {"training_samples": log_uniform(chance, 1e6, 3e8), "global_batch_samples": 1024, "precision": "fp16"}
        return {
            "phase": "training",
            "model": "microsoft/resnet-50",
            "deadline_hours": log_uniform(chance, 2, 100),
        } | amount
    return {
        "phase": "training",
        "model": chance.choice(RUN_MODELS),
        "training_tokens": log_uniform(chance, 1e9, 1e12),
        "sequence_length": chance.choice([2048, 4096, 8192]),
        "global_batch_sequences": chance.choice([128, 512, 1024]),
        "deadline_days": log_uniform(chance, 5, 120),
    }


def random_fine_tuning(chance: random.Random) -> Body:
    """A fine-tuning run with a deadline."""
    return {
        "phase": "fine_tuning",
        "model": chance.choice((*CHAT_MODELS[:3], "Qwen2.5-32B-Instruct", "Llama-3.3-70B-Instruct", MIXTURES[1])),
        "method": chance.choice(["full", "lora", "qlora"]),
        "training_tokens": log_uniform(chance, 1e7, 3e9),
        "sequence_length": chance.choice([1024, 4096]),
        "global_batch_sequences": chance.choice([16, 64, 128]),
        "deadline_hours": log_uniform(chance, 3, 200),
    }


# Kinds of work with their shares.
WORK: dict[Callable[[random.Random], Body], float] = {
    random_chat: 0.25,
    random_long_prompts: 0.12,
    random_agents: 0.15,
    random_mixture: 0.13,
    random_single_pass: 0.12,
    random_offline: 0.06,
    random_run: 0.08,
    random_fine_tuning: 0.09,
}


def random_request(chance: random.Random) -> Body:
    (make,) = chance.choices(list(WORK), list(WORK.values()))
    workload = make(chance)
    served, limits = workload["phase"] == "inference", Body()
    if chance.random() < 0.4:
        limits["confidence"] = chance.choice(CONFIDENCES)
    if chance.random() < 0.3:
        limits["pricing_models"] = ["on_demand"]
    if chance.random() < 0.3:
        name = chance.choice(["accelerators", "vendors", "providers", "weight_formats"][: 4 if served else 3])
        limits[name] = sorted(chance.sample(ALLOWED[name], 3))
    if served and chance.random() < 0.2 and not workload["traffic"].get("offline"):
        workload["availability"] = {"redundancy": chance.choice(["n+1", "n+2"])}
    return {"workload": workload, **({"constraints": limits} if limits else {})}


def scaled(value: Any, factor: float) -> Any:
    """A number or lengths, times a factor; a whole number stays whole and grows by at least the factor."""
    if isinstance(value, dict):
        return {key: scaled(part, factor) for key, part in value.items()}
    return math.ceil(value * factor) if isinstance(value, int) else float(f"{value * factor:.6g}")


def random_step(chance: random.Random) -> float:
    """The factor of a change: small in most cases."""
    return SMALL_STEP if chance.random() < 0.6 else round(chance.uniform(1.1, 3), 2)


def more_load(body: Body, chance: random.Random) -> Pair | None:
    """More requests, samples or tokens."""
    made, step = copy.deepcopy(body), random_step(chance)
    work = made["workload"]
    names, where = (RATES, work["traffic"]) if "traffic" in work else (AMOUNTS, work)
    changed = [name for name in names if name in where]
    for name in changed:
        where[name] = scaled(where[name], step)
    few = where.get("concurrent_requests", 100) < 20  # one request more is then more than a small step
    small = step == SMALL_STEP and not few
    return Pair("more load", body, made, is_small=small) if changed else None


def longer_text(body: Body, chance: random.Random) -> Pair | None:
    """Longer prompts or answers.

    With a fixed number of requests in flight, longer answers lower the rate of prompts, so only prompts are changed.
    TPOT is a mean over the tokens of an answer: the longer the answer, the less a single pause matters, so there is no
    TPOT limit when answers are longer.
    """
    traffic = body["workload"].get("traffic", {})
    names = [n for n in ("input_tokens", "output_tokens") if traffic.get(n)]
    if "concurrent_requests" in traffic:
        names = names[:1]
    if not names:
        return None
    less, step, name = copy.deepcopy(body), random_step(chance), chance.choice(names)
    if name == "output_tokens":
        less["workload"].get("slo", {}).pop("tpot_ms", None)
    made = copy.deepcopy(less)
    made["workload"]["traffic"][name] = scaled(traffic[name], step)
    relation = "longer prompts" if name == "input_tokens" else "longer answers"
    return Pair(relation, less, made, is_small=step == SMALL_STEP)


def tighter_limit(body: Body, chance: random.Random) -> Pair | None:
    """A tighter latency limit, percentile or deadline."""
    made, step = copy.deepcopy(body), random_step(chance)
    work = made["workload"]
    holders = (work, work.get("traffic", {}), work.get("slo", {}))
    limits = [(h, name) for h in holders for name in h if name.startswith("deadline") or name.endswith("_ms")]
    if not limits:
        return None
    holder, name = chance.choice(limits)
    holder[name] = float(f"{holder[name] / step:.6g}")
    return Pair(f"tighter {name.removesuffix('_days').removesuffix('_hours')}", body, made, is_small=step == SMALL_STEP)


def higher_percentile(body: Body, chance: random.Random) -> Pair | None:
    """Limits that more requests must meet."""
    slo = body["workload"].get("slo", {})
    higher = [p for p in (90, 95, 99) if p > slo.get("percentile", 99)]
    if not higher:
        return None
    made = copy.deepcopy(body)
    made["workload"]["slo"]["percentile"] = chance.choice(higher)
    return Pair("higher percentile", body, made)


def higher_confidence(body: Body, chance: random.Random) -> Pair | None:
    low, high = sorted(chance.sample(CONFIDENCES, 2))
    return Pair("higher confidence", with_limits(body, confidence=low), with_limits(body, confidence=high))


def more_redundancy(body: Body, chance: random.Random) -> Pair | None:
    """More spare capacity."""
    work = body["workload"]
    if work["phase"] != "inference" or work["traffic"].get("offline"):
        return None
    low, high = sorted(chance.sample(range(len(REDUNDANCIES)), 2))
    less, more = copy.deepcopy(body), copy.deepcopy(body)
    for made, level in ((less, low), (more, high)):
        made["workload"]["availability"] = {"redundancy": REDUNDANCIES[level]} if level else {}
    return Pair("more redundancy", less, more)


def more_choice(body: Body, chance: random.Random) -> Pair | None:
    """A longer list of allowed hardware, software, providers or ways to pay.

    Both requests count prices of the same age: without a maximum age, old prices count only where nothing else is sold.
    """
    served = body["workload"]["phase"] == "inference"
    names = list(ALLOWED) if served else ["accelerators", "providers", "vendors", "engines", "pricing_models"]
    name = chance.choice(names)
    values = FRAMEWORKS if name == "engines" and not served else ALLOWED[name]
    if "samples_per_s" in body["workload"].get("traffic", {}) and name == "kv_formats":
        return None
    drawn = chance.sample(values, chance.randint(2, min(6, len(values))))
    few = drawn[: chance.randint(1, len(drawn) - 1)]
    if name in ("accelerators", "providers", "vendors"):
        body = with_limits(body, max_price_age_days=Assumptions().stale_price_days)
    return Pair(f"more {name}", with_limits(body, **{name: sorted(drawn)}), with_limits(body, **{name: sorted(few)}))


def any_hardware(body: Body, chance: random.Random) -> Pair | None:
    """All hardware instead of named hardware, at the same kinds of price."""
    both = with_limits(body, price_kinds=FIRM)
    for name in ("accelerators", "vendors", "providers"):
        both["constraints"].pop(name, None)
    name = chance.choice(["accelerators", "vendors"])
    return Pair(f"any {name}", both, with_limits(both, **{name: sorted(chance.sample(ALLOWED[name], 3))}))


def better_router(body: Body, chance: random.Random) -> Pair | None:
    """A router that shares one queue between the replicas, instead of a queue for each."""
    traffic = body["workload"].get("traffic", {})
    if "peak_requests_per_s" not in traffic or not traffic.get("output_tokens"):
        return None
    less, more, other = copy.deepcopy(body), copy.deepcopy(body), chance.choice(["random", "round_robin"])
    less["workload"]["traffic"]["router"] = "least_loaded"
    more["workload"]["traffic"]["router"] = other
    return Pair(f"least_loaded instead of {other}", less, more)


def cached_prefixes(body: Body, chance: random.Random) -> Pair | None:
    """Prompts that a prefix cache may hold, in accelerator or also in host memory, instead of none."""
    traffic = body["workload"].get("traffic", {})
    if not traffic.get("output_tokens") or traffic.get("offline"):
        return None
    less, more = copy.deepcopy(body), copy.deepcopy(body)
    for name in ("cached_prefix_fraction", "shared_prefix_fraction", "turn_gap_s"):
        more["workload"]["traffic"].pop(name, None)
    cached = less["workload"]["traffic"]
    cached.setdefault("cached_prefix_fraction", round(chance.uniform(0.05, 0.95), 2))
    cached.setdefault("turn_gap_s", log_uniform(chance, 1, 3000))
    if chance.random() < 0.5:
        return Pair("cached prefixes", less, more)
    return Pair("host prefixes", with_limits(less, prefix_cache_tiers=["gpu", "host"]), less)


def twice_the_load(body: Body, _: random.Random) -> Pair | None:
    """Twice the load costs at most twice as much, and one machine."""
    made, work = copy.deepcopy(body), body["workload"]
    if work["phase"] != "inference" or work["traffic"].get("offline"):
        return None
    for name in RATES:
        if name in work["traffic"]:
            made["workload"]["traffic"][name] = scaled(work["traffic"][name], 2)
    return Pair("twice the load", made, body, times=2.0, machines=1)


def with_limits(body: Body, **limits: Any) -> Body:
    """The request with other constraints."""
    return {**body, "constraints": {**body.get("constraints", {}), **limits}}


CHANGES = {
    more_load: 0.26,
    longer_text: 0.18,
    tighter_limit: 0.18,
    higher_percentile: 0.05,
    higher_confidence: 0.07,
    more_redundancy: 0.04,
    more_choice: 0.1,
    any_hardware: 0.03,
    better_router: 0.04,
    cached_prefixes: 0.05,
    twice_the_load: 0.05,
}


def random_pairs(chance: random.Random) -> Iterator[Pair]:
    while True:
        body, made = random_request(chance), set[str]()
        for change in chance.choices(list(CHANGES), list(CHANGES.values()), k=CHANGES_PER_REQUEST):
            pair = change(body, chance)
            if pair is not None and pair.relation not in made:
                made.add(pair.relation)
                yield pair


@dataclass(frozen=True, slots=True)
class Compared:
    """A pair and its outcomes."""

    pair: Pair
    less: Outcome
    more: Outcome

    @property
    def is_violated(self) -> bool:
        """Whether the request that must cost less costs more."""
        return self.costs_more_by(TOLERANCE)

    def costs_more_by(self, share: float) -> bool:
        """Whether the request that must cost less costs more by over a share."""
        most = self.pair.times * self.more.usd + self.pair.machines * self.more.machine_usd
        return self.less.usd > most * (1 + share)

    @property
    def is_cliff(self) -> bool:
        """Whether a small step is expensive."""
        return self.pair.is_small and CLIFF * self.less.usd < self.more.usd < math.inf


def compare_pair(runner: PairRunner, pair: Pair) -> Compared | None:
    """The outcomes of a pair; None if the requests contradict the catalog."""
    try:
        return Compared(pair, runner.outcome(pair.less), runner.outcome(pair.more))
    except AppError:
        return None


def explain_violation(runner: PairRunner, compared: Compared) -> str:
    """The kind of a violation.

    Either the search missed the deployment of the other request, or this deployment misses the limits of a request that
    asks for less.
    """
    pair, less, more = compared.pair, compared.less, compared.more
    if more.deployment is None or pair.times > 1 or more.deployment.pools is not None:
        return "other"
    if runner.meets_limits(pair.less, more.deployment):
        return "missed by the search"
    if less.layout == more.layout and less.usd <= more.usd + max(less.machine_usd, more.machine_usd) * (1 + TOLERANCE):
        return "one machine more of the same layout"
    return "the other deployment misses the limits"


def is_near_tie(runner: PairRunner, compared: Compared) -> bool:
    """Whether a cost is higher only because an option comes first for its published use.

    Such an option may cost more than the cheapest one by the share of a near tie. Without it, the relation must hold.
    """
    pair = compared.pair
    by_cost = {"near_tie_share": 0.0, "no_recipe_saving": 0.0, "no_result_saving": 0.0}
    exact = [{**body, "assumptions": by_cost} for body in (pair.less, pair.more)]
    again = compare_pair(runner, replace(pair, less=exact[0], more=exact[1]))
    near = not compared.costs_more_by(NEAR_TIE)
    return near and again is not None and not again.is_violated


def explain_cliff(runner: PairRunner, compared: Compared) -> tuple[str, str]:
    """The kind of a cliff, and what becomes of the type of the cheaper request."""
    less, more = compared.less, compared.more
    if more.usd <= less.usd + less.machine_usd * (1 + TOLERANCE):
        return "one machine more", ""
    if less.layout == more.layout and more.replicas <= less.replicas + 1:
        return "one replica more", ""
    assert less.deployment is not None
    if less.layout == more.layout:
        return "several machines more", ""
    reason = runner.reject_reason(compared.pair.more, less.deployment.accelerator)
    kind = "another type" if less.layout[0] != more.layout[0] else "another layout or machine"
    return kind, reason


def print_pair(title: str, compared: Compared) -> None:
    """Prints a pair with its requests and outcomes."""
    print(f"{title} ({compared.pair.relation}), {compared.less.usd / compared.more.usd:.3f} times the cost")
    for body, outcome in ((compared.pair.less, compared.less), (compared.pair.more, compared.more)):
        print(f"  {json.dumps(body)}\n    {outcome}")
    sys.stdout.flush()


def run_pairs(runner: PairRunner, count: int, seed: int) -> int:
    """Compares pairs and prints violations, cliffs and counts; the number of violations."""
    made, compared = random_pairs(random.Random(seed)), list[Compared]()
    violations, cliffs, relations, near_ties = Counter[str](), Counter[str](), Counter[str](), 0
    while len(compared) < count:
        one = compare_pair(runner, next(made))
        if one is None or one.less.usd == one.more.usd == math.inf:
            continue  # nothing is compared
        compared.append(one)
        relations[one.pair.relation] += 1
        if one.is_violated and is_near_tie(runner, one):
            near_ties += 1
        elif one.is_violated:
            kind = explain_violation(runner, one)
            violations[kind] += 1
            print_pair(f"VIOLATION: {kind}", one)
        if one.is_cliff:
            kind, reason = explain_cliff(runner, one)
            cliffs[kind] += 1
            print_pair(f"CLIFF: {kind}", one)
            print(f"    {reason}" if reason else "", end="\n" if reason else "")
    small = [c for c in compared if c.pair.is_small]
    ended = sum(c.more.usd == math.inf > c.less.usd for c in small)
    print(f"{count} pairs, {len(runner.answered)} answers: {dict(relations.most_common())}")
    print(f"violations: {dict(violations) or 'none'}; {near_ties} near ties decided by published use")
    print(f"{len(small)} small steps, {ended} of them leave no option; cliffs: {dict(cliffs) or 'none'}")
    return violations.total()


def main() -> None:
    """Runs the pairs; the exit status is 1 if a relation is violated."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    options = parser.parse_args()
    compile_simulation()
    with seeded_catalog() as sessions:
        violated = run_pairs(PairRunner(CatalogStore(sessions, check_s=3600)), options.count, options.seed)
    sys.exit(violated > 0)


if __name__ == "__main__":
    main()
