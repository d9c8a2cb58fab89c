"""Expositions as engines write them, by the client library they use, of requests and tokens that are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

# As in vLLM's loggers.
FIRST_TOKEN_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
TOKEN_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
LENGTH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
STARTED_S = 1_790_000_000.0


def written(
    counters: Mapping[str, float] | None = None,
    gauges: Mapping[str, float] | None = None,
    histograms: Mapping[str, tuple[tuple[float, ...], Iterable[float]]] | None = None,
    engine: str = "0",
    started_s: float = STARTED_S,
) -> str:
    """An exposition of metrics with the labels model_name and engine."""
    registry = CollectorRegistry()
    labels, values = ("model_name", "engine"), ("llama", engine)
    for name, value in (counters or {}).items():
        Counter(name, "Counted.", labels, registry=registry).labels(*values).inc(value)
    for name, value in (gauges or {}).items():
        Gauge(name, "Measured.", labels, registry=registry).labels(*values).set(value)
    for name, (buckets, seen) in (histograms or {}).items():
        histogram = Histogram(name, "Spread.", labels, buckets=buckets, registry=registry).labels(*values)
        for value in seen:
            histogram.observe(value)
    Gauge("process_start_time_seconds", "Start.", registry=registry).set(started_s)
    return generate_latest(registry).decode()


def vllm(requests: int = 1000, *, engine: str = "0", waiting: float = 0.0, ttft_s: float = 0.18) -> str:
    """Metrics of vLLM after `requests` requests of 800 tokens in and 200 out, 12 ms per token."""
    return written(
        counters={
            "vllm:request_success": requests,
            "vllm:generation_tokens": 200.0 * requests,
            "vllm:num_preemptions": 0.1 * requests,
            "vllm:prefix_cache_queries": 800.0 * requests,
            "vllm:prefix_cache_hits": 200.0 * requests,
            "vllm:spec_decode_num_draft_tokens": 300.0 * requests,
            "vllm:spec_decode_num_accepted_tokens": 195.2 * requests,
        },
        gauges={
            "vllm:num_requests_running": 12.0,
            "vllm:num_requests_waiting": waiting,
            "vllm:kv_cache_usage_perc": 0.6,
        },
        histograms={
            "vllm:time_to_first_token_seconds": (FIRST_TOKEN_BUCKETS, [ttft_s] * requests),
            "vllm:request_time_per_output_token_seconds": (TOKEN_BUCKETS, [0.012] * requests),
            "vllm:inter_token_latency_seconds": (TOKEN_BUCKETS, [0.012] * (9 * requests) + [0.06] * requests),
            "vllm:request_queue_time_seconds": (FIRST_TOKEN_BUCKETS, [0.02] * requests),
            "vllm:request_prompt_tokens": (LENGTH_BUCKETS, [800] * requests),
            "vllm:request_generation_tokens": (LENGTH_BUCKETS, [200] * requests),
        },
        engine=engine,
    )
