"""Metrics of an engine as figures of its service."""

from __future__ import annotations

import pytest

from app.observed.exposition import Series, parse_scrape
from app.observed.figures import Reading, RunContext
from app.observed.service import VLLM, Service, acceptance_rate
from tests.observed.written import STARTED_S, TOKEN_BUCKETS, vllm, written


def reading(*texts: tuple[str, float | None], runs: RunContext | None = None) -> Reading:
    counted: dict[float | None, int] = {}
    scrapes = []
    for text, at_s in texts:
        scrapes.append(parse_scrape(text, at_s, lambda _: True, counted.get(at_s, 0)))
        counted[at_s] = counted.get(at_s, 0) + 1
    return Service(VLLM, Series.from_scrapes(scrapes), runs or RunContext()).read_all()


def figures(found: Reading) -> dict[str, float]:
    return {f.quantity: f.value for f in found.figures}


def test_the_figures_read_are_what_the_engine_did() -> None:
    found = figures(reading((vllm(1000), STARTED_S + 500), runs=RunContext(draft_tokens=3)))
    exact = {
        "requests_per_s": 2.0,
        "output_tokens_per_s": 400.0,
        "input_tokens_mean": 800,
        "output_tokens_mean": 200,
        "running": 12,
        "waiting": 0,
        "cache_usage": 0.6,
        "preemptions_per_request": 0.1,
        "prefix_hit_share": 0.25,
        "acceptance_rate": 0.8,
    }
    medians = {"ttft_p50_s": 0.18, "queue_p50_s": 0.02, "tpot_p50_s": 0.012, "inter_token_p50_s": 0.012}
    tails = {"ttft_p95_s", "ttft_p99_s", "tpot_p95_s", "tpot_p99_s", "inter_token_p99_s"}
    assert {name: found[name] for name in exact} == pytest.approx(exact)
    assert {name: found[name] for name in medians} == pytest.approx(medians, rel=0.3)
    assert found.keys() == exact.keys() | medians.keys() | tails
    assert 0.01 < found["tpot_p95_s"] < 0.02 and 0.05 < found["inter_token_p99_s"] < 0.075


def test_between_two_scrapes_what_came_before_does_not_count() -> None:
    found = figures(reading((vllm(1000, ttft_s=3.0), 0.0), (vllm(1000, ttft_s=3.0), 50.0)))
    assert "ttft_p50_s" not in found and "requests_per_s" not in found
    assert figures(reading((vllm(1000), 0.0), (vllm(1100), 50.0)))["requests_per_s"] == 2.0


def test_scrapes_at_several_loads_are_waits_by_load() -> None:
    texts = [(vllm(count), 60.0 * i) for i, count in enumerate((0, 60, 180, 420))]
    found = reading(*texts)
    assert [point.requests_per_s for point in found.by_load] == [1, 2, 4]
    assert all(point.ttft_p50_s and point.tpot_p95_s for point in found.by_load)
    assert reading(*[(vllm(60 * i), 60.0 * i) for i in range(4)]).by_load == ()
    assert found.to_observations().service.by_load == found.by_load


def test_several_models_are_reported() -> None:
    other = vllm(10, engine="1").replace("llama", "qwen")
    assert any("2 models" in note for note in reading((vllm(10) + other, None)).notes)


def test_one_scrape_without_its_time_has_no_rates_and_says_what_they_need() -> None:
    found = reading((vllm(), None))
    assert "requests_per_s" not in figures(found) and "at_s" in found.notes[0]


def test_texts_of_one_moment_are_of_several_replicas() -> None:
    runs = RunContext(replicas=2)
    found = figures(reading((vllm(3000), STARTED_S + 1000), (vllm(1000), STARTED_S + 1000), runs=runs))
    assert found["requests_per_s"] == 4.0 and found["busiest_replica_share"] == 1.5 and found["running"] == 12


def test_rates_of_some_replicas_are_scaled_to_all_and_that_is_reported() -> None:
    found = reading((vllm(1000), STARTED_S + 1000), runs=RunContext(replicas=4))
    assert figures(found)["requests_per_s"] == 4.0 and "1 of 4 replicas" in found.notes[0]
    whole = reading((vllm(1000), STARTED_S + 1000), runs=RunContext(replicas=4, of_replicas=4))
    assert figures(whole)["requests_per_s"] == 1.0 and whole.notes == ()


def test_ranks_of_a_replica_that_have_metrics_of_their_own_are_added_up() -> None:
    both = vllm(1000) + vllm(1000, engine="1")
    found = figures(reading((both, STARTED_S + 1000), runs=RunContext(replicas=1)))
    assert found["requests_per_s"] == 2.0 and found["running"] == 24 and found["cache_usage"] == 0.6


def test_the_old_name_of_the_time_per_token_is_recognized_by_its_count() -> None:
    old = written(
        {"vllm:request_success": 100},
        histograms={
            "vllm:time_to_first_token_seconds": ((0.1, 1.0), [0.5] * 100),
            "vllm:time_per_output_token_seconds": (TOKEN_BUCKETS, [0.03] * 5000),
        },
    )
    found = figures(reading((old, None)))
    assert found["tpot_p50_s"] == pytest.approx(0.03) and "tpot_p95_s" not in found
    assert 0.025 < found["inter_token_p50_s"] < 0.03


@pytest.mark.parametrize("drafted", [1, 3, 8])
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
def test_the_acceptance_rate_is_found_back(drafted: int, rate: float) -> None:
    of_all = sum(rate**i for i in range(1, drafted + 1)) / drafted
    assert acceptance_rate(of_all, drafted) == pytest.approx(rate)
