"""`python -m benchmarks.search`: compares recommendations with a search that simulates every layout.

The questions are random services whose latency limits range from almost impossible to easy. The output lists answers
whose first option is missing or more expensive than that of the exhaustive search, later options that are, and the CPU
time.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from app.api.questions import build_recommend_question
from app.api.schemas.requests import RecommendRequest
from app.catalog.snapshot import CatalogStore
from app.compiled import compile_simulation
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving import finalists
from app.sizing.snapshot import Catalog
from calibration.calibrate import seeded_catalog

# Models with a typical TPOT limit, ms.
MODELS = {
    "mistralai/Mixtral-8x7B-Instruct-v0.1": 25,
    "Llama-3.1-8B-Instruct": 25,
    "Llama-3.1-70B-Instruct": 25,
    "Qwen2.5-32B-Instruct": 25,
    "Llama-3.1-405B-Instruct": 60,
    "deepseek-ai/DeepSeek-V3": 60,
}
EVERY = 10_000  # budgets of the exhaustive search for additional layouts
ALIKE = 1.001


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Options of an answer in USD/h, and the CPU time of the answer in seconds."""

    usd_per_hour: list[float]
    cpu_s: float


def random_requests(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Endless random services."""
    while True:
        model, tpot_ms = chance.choice(list(MODELS.items()))
        traffic = {"input_tokens": int(10 ** chance.uniform(2, 4)), "output_tokens": int(10 ** chance.uniform(1.5, 3))}
        load = (
            {"concurrent_requests": int(10 ** chance.uniform(0, 2.5))}
            if chance.random() < 0.3
            else {"peak_requests_per_s": round(10 ** chance.uniform(-1, 1.7), 2)}
        )
        slo = {
            "tpot_ms": round(tpot_ms * 10 ** chance.uniform(-0.85, 0.3), 1),
            "ttft_ms": round(10 ** chance.uniform(2, 3.7)),
            "percentile": chance.choice([50, 95, 99]),
        }
        limits: dict[str, Any] = {"pricing_models": ["on_demand"]} if chance.random() < 0.3 else {}
        limits |= {"confidence": chance.choice([0.5, 0.9])} if chance.random() < 0.2 else {}
        workload = {"phase": "inference", "model": model, "traffic": {**traffic, **load}, "slo": slo}
        safe = {"availability": {"redundancy": "n+1"}} if chance.random() < 0.2 else {}
        yield {"workload": {**workload, **safe}, **({"constraints": limits} if limits else {})}


def random_questions(catalog_store: CatalogStore, count: int, seed: int) -> list[Question]:
    directory, today = catalog_store.directory(), datetime.now(UTC).date()
    made = random_requests(random.Random(seed))
    asked = [RecommendRequest.model_validate_json(json.dumps(next(made)), strict=True) for _ in range(count)]
    return [
        replace(build_recommend_question(each, directory, catalog_store, today), extras=frozenset()) for each in asked
    ]


def search_answers(asked: list[Question], catalog: Catalog) -> list[SearchResult]:
    found = []
    for question in asked:
        began = time.process_time()
        ranked = recommend_hardware(question, catalog).recommendations
        costs = [r.estimate.cost.usd_per_hour for r in ranked if r.estimate.cost is not None]
        found.append(SearchResult([usd for usd in costs if usd is not None], time.process_time() - began))
    return found


def print_comparison(found: list[SearchResult], whole: list[SearchResult]) -> None:
    """Prints where the search is worse than the exhaustive one, and the CPU time."""
    first, later, places, dearer = 0, 0, 0, []
    for ours, every in zip(found, whole, strict=True):
        for place, best in enumerate(every.usd_per_hour):
            own = ours.usd_per_hour[place] if place < len(ours.usd_per_hour) else math.inf
            worse = own > best * ALIKE
            first += worse and place == 0
            later += worse and place > 0
            places += place > 0
            dearer += [own / best - 1] if worse else []
    print(f"{len(found)} questions, {sum(not f.usd_per_hour for f in whole)} without a feasible option")
    print(f"first option missing or more expensive: {first}; later options: {later} of {places}")
    differences = [f"{100 * share:.0f} %" if share < math.inf else "missing" for share in sorted(dearer)]
    print(f"cost difference: {', '.join(differences)}")
    times = sorted(f.cpu_s for f in found)  # the exhaustive search reuses simulations, so its time is not comparable
    print(f"{sum(times) / len(times):.2f} CPU s on average, {times[-1]:.2f} at most")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    compile_simulation()
    with seeded_catalog() as sessions:
        catalog_store = CatalogStore(sessions, check_s=3600)
        asked = random_questions(catalog_store, options.count, options.seed)
        search_answers(asked[:1], catalog_store.catalog())
        found = search_answers(asked, catalog_store.catalog())
        finalists.MAX_REPLACEMENTS = finalists.MAX_CHALLENGERS = EVERY
        finalists.MAX_FAILED, finalists.CHECK_TOLERANCE, finalists.MIN_SCORE_RATIO = EVERY, math.inf, 0.0
        finalists.MAX_CAPACITY_RATIO = finalists.MAX_STABLE_RATIO = finalists.MAX_IN_FLIGHT_RATIO = math.inf
        print_comparison(found, search_answers(asked, catalog_store.catalog()))


if __name__ == "__main__":
    main()
