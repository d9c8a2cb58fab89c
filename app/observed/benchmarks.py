"""Runs from the result files of benchmarks, recognized by content.

Only field names and units are taken from the tools. Sources, read 2026-11-25 to 2026-11-27: vllm-project/vllm
(vllm bench serve --save-result and its table, vllm bench latency and throughput --output-json), sgl-project/sglang
(bench_serving, one object per line, bare Infinity), vllm-project/guidellm 0.8 (benchmarks.json, report version 2),
ai-dynamo/aiperf 0.13 and GenAI-Perf (profile_export JSON: each metric has its unit), kubernetes-sigs/inference-perf 0.7
(lifecycle metrics of a stage), llm-d/llm-d-benchmark (Benchmark Report 0.1 to 0.2.1), ggml-org/llama.cpp (llama-bench
-o json and its table), mlcommons/inference (mlperf_log_summary.txt). Logs of trainers and engines are read as `logs.py`
reads them.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from app.observed.figures import RunContext, UnreadableText
from app.observed.lines import LineIndex, split_lines
from app.observed.logs import likeliest_trainer, read_log
from app.observed.measured_run import MeasuredRun, UnusableRun
from app.work import check_each

MAX_RUNS = 60  # runs in one file: each is compared with a prediction
MAX_TEXT = 200  # characters of a name taken from a file
LLAMA_BENCH = "llama-bench"


def positive(value: object) -> float | None:
    """A number between 1e-15 and 1e15; None for anything else. Numbers in text count."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value.replace(",", "") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return number if 1e-15 < number < 1e15 else None


def count(value: object) -> float | None:
    """A number that may be 0."""
    is_zero = isinstance(value, int | float) and not isinstance(value, bool) and value == 0
    return 0.0 if is_zero else positive(value)


def at_path(node: object, *path: str) -> Any:
    """The value under a path of keys; None if a part is missing."""
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def number_at(node: object, *path: str) -> float | None:
    """The positive number under a path of keys."""
    return positive(at_path(node, *path))


def text_at(node: object, *path: str) -> str | None:
    """The text under a path of keys, printable and shortened; None if it is empty or not text."""
    value = at_path(node, *path)
    if not isinstance(value, str):
        return None
    return "".join(c for c in value if c.isprintable()).strip()[:MAX_TEXT] or None


def divided(value: float | None, by: float | None) -> float | None:
    """A quotient; None if a part is missing."""
    return None if value is None or not by else value / by


def times(value: float | None, factor: float) -> float | None:
    """A product; None if the value is missing."""
    return None if value is None else value * factor


def first(*values: float | None) -> float | None:
    return next((v for v in values if v is not None), None)


def name_from_path(path: str | None) -> str | None:
    """The name of a model whose tool states a path or an id."""
    return None if path is None else path.rstrip("/") or None


# One of the readers below; each takes a decoded document or a text, and yields runs without digest. Those of files that
# state too little also take what the caller states, by field of MeasuredRun.
Reader = Callable[[Any], Iterator[MeasuredRun]]


def read_bench_serve(node: Any) -> Iterator[MeasuredRun]:
    """Runs of vllm bench serve and of SGLang's bench_serving, which share most field names."""
    sglang = "mean_e2e_latency_ms" in node or "total_throughput" in node or "server_info" in node
    completed, duration = number_at(node, "completed"), number_at(node, "duration")
    rate, concurrency = number_at(node, "request_rate"), number_at(node, "max_concurrency")
    server = at_path(node, "server_info")
    backend = (text_at(node, "backend") or "").lower()
    latency_s = times(first(number_at(node, "mean_e2e_latency_ms"), number_at(node, "mean_e2el_ms")), 1e-3)
    achieved = number_at(node, "request_throughput")
    yield MeasuredRun(
        format="sglang-bench-serving" if sglang else "vllm-bench-serve",
        day=day_of_stamp(text_at(node, "date")),
        model=name_from_path(first_text(text_at(node, "model_id"), text_at(server, "model_path"))),
        accelerator=text_at(node, "accelerator"),
        engine="sglang" if sglang and backend.startswith("sglang") else "vllm" if backend == "vllm" else None,
        engine_version=first_text(text_at(node, "engine_version"), text_at(server, "version")),
        weight_format=text_at(node, "weight_format"),
        tensor_parallel=first(
            *(number_at(node, name) for name in ("tensor_parallel_size", "tensor_parallel", "tp", "tp_size")),
            number_at(server, "tp_size"),
        ),
        concurrency=None if rate is not None and concurrency is None else concurrency,
        busy_concurrency=first(
            number_at(node, "concurrency"), None if latency_s is None else times(achieved, latency_s)
        ),
        asked_per_s=rate if concurrency is None else None,
        achieved_per_s=achieved,
        offline=True if rate is None and concurrency is None else None,
        completed=completed,
        failed=count(at_path(node, "failed")),
        input_tokens=first(
            divided(number_at(node, "total_input_tokens"), completed), number_at(node, "random_input_len")
        ),
        output_tokens=divided(number_at(node, "total_output_tokens"), completed),
        output_tokens_per_s=first(
            number_at(node, "output_throughput"), divided(number_at(node, "total_output_tokens"), duration)
        ),
        **latencies_ms(node),
        invalid=DRAFTED if any((number_at(node, name) or 0) > 1 for name in ACCEPTED_LENGTHS) else "",
    )


def read_bench_latency(node: Any, known: Mapping[str, Any]) -> Iterator[MeasuredRun]:
    """The run of vllm bench latency: one batch after the other. The file states neither its size nor any length."""
    batch, output, iterations = known.get("concurrency"), known.get("output_tokens"), values_of(node.get("latencies"))
    yield MeasuredRun(
        format="vllm-bench-latency",
        engine="vllm",
        concurrency=batch,
        completed=times(batch, len(iterations)) if iterations else None,
        output_tokens_per_s=divided(multiplied(batch, output), number_at(node, "avg_latency")),
    )


def read_bench_throughput(node: Any, known: Mapping[str, Any]) -> Iterator[MeasuredRun]:
    """The run of vllm bench throughput, whose tokens are those of prompts and outputs together."""
    requests, output = number_at(node, "num_requests"), known.get("output_tokens")
    tokens = divided(number_at(node, "total_num_tokens"), requests)
    yield MeasuredRun(
        format="vllm-bench-throughput",
        engine="vllm",
        offline=True,
        completed=requests,
        input_tokens=None if tokens is None or output is None else positive(tokens - output),
        output_tokens_per_s=multiplied(number_at(node, "requests_per_second"), output),
    )


ACCEPTED_LENGTHS = ("spec_decode_acceptance_length", "accept_length")  # tokens per step; above 1 with drafts
DRAFTED = "the server used speculative decoding, and measurements are compared with predictions without it"


def latencies_ms(node: Any) -> dict[str, Any]:
    """Latencies of flat names such as mean_ttft_ms; medians where no mean is stated."""
    statistic = "mean" if number_at(node, "mean_ttft_ms") or number_at(node, "mean_tpot_ms") else "median"
    return {
        "ttft_s": times(number_at(node, f"{statistic}_ttft_ms"), 1e-3),
        "tpot_s": times(first(number_at(node, f"{statistic}_tpot_ms"), number_at(node, f"{statistic}_itl_ms")), 1e-3),
        "latency_statistic": "mean" if statistic == "mean" else "p50",
        "ttft_p50_s": times(number_at(node, "median_ttft_ms"), 1e-3),
        "ttft_p99_s": times(number_at(node, "p99_ttft_ms"), 1e-3),
    }


def first_text(*values: str | None) -> str | None:
    return next((v for v in values if v), None)


def day_of_stamp(stamp: str | None) -> str | None:
    """The day of a time stamp, as 20261101-101500 or ISO 8601."""
    found = re.match(r"(\d{4})-?(\d\d)-?(\d\d)", stamp or "")
    return f"{found[1]}-{found[2]}-{found[3]}" if found else None


def read_guidellm(node: Any) -> Iterator[MeasuredRun]:
    """Runs of GuideLLM: one per strategy of a sweep."""
    benchmarks = at_path(node, "benchmarks")
    for each in benchmarks if isinstance(benchmarks, list) else ():
        config = at_path(each, "config") or at_path(each, "args")
        strategy, metrics = at_path(config, "strategy"), at_path(each, "metrics")
        kind = text_at(strategy, "type_") or ""

        def mean(*names: str, metrics: Any = metrics) -> float | None:
            return first(*(number_at(metrics, name, "successful", "mean") for name in names))

        made = at_path(each, "scheduler_metrics", "requests_made") or at_path(metrics, "request_totals")
        ttft = at_path(metrics, "time_to_first_token_ms", "successful")
        yield MeasuredRun(
            format="guidellm",
            model=name_from_path(first_text(text_at(config, "backend", "model"), text_at(node, "args", "model"))),
            concurrency=first(number_at(strategy, "streams"), 1.0 if kind == "synchronous" else None),
            busy_concurrency=mean("request_concurrency"),
            asked_per_s=number_at(strategy, "rate"),
            achieved_per_s=mean("requests_per_second"),
            offline=True if kind == "throughput" else None,
            completed=first(
                number_at(made, "successful"), number_at(metrics, "request_latency", "successful", "count")
            ),
            failed=count(at_path(made, "errored")),
            input_tokens=mean("prompt_token_count"),
            output_tokens=mean("output_token_count"),
            output_tokens_per_s=mean("output_tokens_per_second"),
            ttft_s=times(number_at(ttft, "mean"), 1e-3),
            tpot_s=times(mean("inter_token_latency_ms", "time_per_output_token_ms"), 1e-3),
            ttft_p50_s=times(first(number_at(ttft, "median"), number_at(ttft, "percentiles", "p50")), 1e-3),
            ttft_p99_s=times(number_at(ttft, "percentiles", "p99"), 1e-3),
        )


SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "sec": 1.0, "s": 1.0, "seconds": 1.0}


def read_aiperf(node: Any) -> Iterator[MeasuredRun]:
    """The run of AIPerf or GenAI-Perf. Each metric states its unit."""

    def seconds(name: str, statistic: str = "avg") -> float | None:
        unit = SECONDS.get((text_at(node, name, "unit") or "ms").lower())
        return None if unit is None else times(number_at(node, name, statistic), unit)

    config, telemetry = at_path(node, "input_config"), at_path(node, "telemetry_data", "endpoints")
    gpus = [gpu for each in values_of(telemetry) for gpu in values_of(at_path(each, "gpus"))]
    models = at_path(config, "model_names") or at_path(config, "endpoint", "model_names")
    models = models if isinstance(models, list) else at_path(config, "models", "items")
    model = models[0] if isinstance(models, list) and models else None
    concurrency = first(number_at(config, "loadgen", "concurrency"), number_at(config, "concurrency"))
    rate = first(number_at(config, "loadgen", "request_rate"), number_at(config, "request_rate"))
    stopped = at_path(node, "was_cancelled") is True or at_path(node, "is_complete") is False
    yield MeasuredRun(
        format="aiperf" if "aiperf_version" in node else "genai-perf",
        day=day_of_stamp(text_at(node, "start_time")),
        model=name_from_path(text_at(model, "name") if isinstance(model, Mapping) else text_at({"m": model}, "m")),
        accelerator=next((name for gpu in gpus if (name := text_at(gpu, "gpu_name"))), None),
        accelerators=float(len(gpus)) or None,
        concurrency=concurrency,
        busy_concurrency=multiplied(number_at(node, "request_throughput", "avg"), seconds("request_latency")),
        asked_per_s=rate if concurrency is None else None,
        achieved_per_s=number_at(node, "request_throughput", "avg"),
        completed=number_at(node, "request_count", "avg"),
        failed=count(at_path(node, "error_request_count", "avg")),
        input_tokens=number_at(node, "input_sequence_length", "avg"),
        output_tokens=number_at(node, "output_sequence_length", "avg"),
        output_tokens_per_s=number_at(node, "output_token_throughput", "avg"),
        ttft_s=seconds("time_to_first_token"),
        tpot_s=seconds("inter_token_latency"),
        ttft_p50_s=seconds("time_to_first_token", "p50"),
        ttft_p99_s=seconds("time_to_first_token", "p99"),
        invalid="the tool reports that the run was stopped early" if stopped else "",
    )


def read_aiperf_aggregate(node: Any) -> Iterator[MeasuredRun]:
    """Runs of AIPerf that were repeated: the means over the repetitions, for each combination of a sweep."""
    combinations = at_path(node, "per_combination_metrics")
    for each in combinations if isinstance(combinations, list) else [node]:
        summary: dict[str, Any] = {"aiperf_version": at_path(node, "aiperf_version")}
        for name, value in mapping_at(each, "metrics").items():
            metric, _, statistic = str(name).rpartition("_")
            stated = summary.setdefault(metric, {"unit": at_path(value, "unit")})
            if isinstance(stated, dict):
                stated[statistic] = at_path(value, "mean")
        yield from read_aiperf({**summary, "input_config": {"loadgen": mapping_at(each, "parameters")}})


def mapping_at(node: object, *path: str) -> Mapping[str, Any]:
    """The object under a path of keys; an empty one for anything else."""
    value = at_path(node, *path)
    return value if isinstance(value, Mapping) else {}


def values_of(node: object) -> list[Any]:
    """The values of an object or a list; none for anything else."""
    return list(node.values()) if isinstance(node, Mapping) else list(node) if isinstance(node, list) else []


def multiplied(a: float | None, b: float | None) -> float | None:
    """A product; None if a part is missing."""
    return None if a is None or b is None else a * b


def read_inference_perf(node: Any) -> Iterator[MeasuredRun]:
    """The run of one stage of inference-perf. Times are in seconds."""
    done, load = at_path(node, "successes"), at_path(node, "load_summary")
    latency = at_path(done, "latency")
    ttft, concurrency = at_path(latency, "time_to_first_token"), number_at(load, "concurrency")
    achieved = number_at(done, "throughput", "requests_per_sec")
    asked = number_at(load, "requested_rate")
    yield MeasuredRun(
        format="inference-perf",
        concurrency=concurrency,
        busy_concurrency=multiplied(achieved, number_at(latency, "request_latency", "mean")),
        asked_per_s=asked if concurrency is None else None,
        achieved_per_s=first(number_at(load, "achieved_rate") if asked else None, achieved),
        completed=first(number_at(done, "count"), number_at(load, "count")),
        failed=count(at_path(node, "failures", "count")),
        input_tokens=first(number_at(done, "prompt_tokens", "mean"), number_at(done, "prompt_len", "mean")),
        output_tokens=first(
            number_at(done, "output_tokens", "mean"),
            number_at(done, "output_len", "mean"),
            divided(number_at(done, "throughput", "output_tokens_per_sec"), achieved),
        ),
        output_tokens_per_s=number_at(done, "throughput", "output_tokens_per_sec"),
        ttft_s=number_at(ttft, "mean"),
        tpot_s=first(
            number_at(latency, "time_per_output_token", "mean"), number_at(latency, "inter_token_latency", "mean")
        ),
        ttft_p50_s=first(number_at(ttft, "median"), number_at(ttft, "p50")),
        ttft_p99_s=number_at(ttft, "p99"),
    )


REPORT_SECONDS = {"s": 1.0, "s/token": 1.0, "ms": 1e-3, "ms/token": 1e-3}


def read_report(node: Any) -> Iterator[MeasuredRun]:
    """The run of a Benchmark Report 0.1 to 0.2.1. Version 0.1 has its metrics one level higher."""
    engine = report_engine(node)
    load = at_path(node, "scenario", "load", "standardized")
    results = at_path(node, "results", "request_performance", "aggregate") or at_path(node, "metrics")
    requests, latency = at_path(results, "requests"), at_path(results, "latency")
    rates = at_path(results, "throughput")

    def seconds(name: str, statistic: str = "mean") -> float | None:
        unit = REPORT_SECONDS.get(text_at(latency, name, "units") or "s")
        return None if unit is None else times(number_at(latency, name, statistic), unit)

    def rate(old: str, new: str) -> float | None:
        return first(number_at(rates, new, "mean"), number_at(rates, old))

    total, failed = number_at(requests, "total"), count(at_path(requests, "failures"))
    achieved, concurrency = rate("requests_per_sec", "request_rate"), number_at(load, "concurrency")
    yield MeasuredRun(
        format="benchmark-report",
        day=day_of_stamp(text_at(node, "run", "time", "start")),
        **engine,
        concurrency=concurrency,
        busy_concurrency=multiplied(achieved, seconds("request_latency")),
        asked_per_s=number_at(load, "rate_qps") if concurrency is None else None,
        achieved_per_s=achieved,
        completed=None if total is None else total - (failed or 0.0),
        failed=failed,
        input_tokens=first(number_at(requests, "input_length", "mean"), number_at(load, "input_seq_len", "value")),
        output_tokens=first(number_at(requests, "output_length", "mean"), number_at(load, "output_seq_len", "value")),
        output_tokens_per_s=rate("output_tokens_per_sec", "output_token_rate"),
        ttft_s=seconds("time_to_first_token"),
        tpot_s=first(seconds("time_per_output_token"), seconds("inter_token_latency")),
        ttft_p50_s=seconds("time_to_first_token", "p50"),
        ttft_p99_s=seconds("time_to_first_token", "p99"),
    )


def report_engine(node: Any) -> dict[str, Any]:
    """The serving engine of a Benchmark Report, with its model and hardware."""
    stack = at_path(node, "scenario", "stack")
    parts = [at_path(each, "standardized") for each in stack] if isinstance(stack, list) else []
    engines = [p for p in parts if text_at(p, "kind") == "inference_engine"]
    found = engines[0] if engines else None
    old, split = at_path(node, "scenario", "host", "accelerator"), at_path(found, "accelerator", "parallelism")
    old = old[0] if isinstance(old, list) and old else old
    platform = at_path(node, "scenario", "platform", "engine")
    platform = platform[0] if isinstance(platform, list) and platform else platform
    several = len(engines) > 1 or (number_at(found, "replicas") or 1) > 1
    return {
        "model": name_from_path(
            first_text(text_at(found, "model", "name"), text_at(node, "scenario", "model", "name"))
        ),
        "accelerator": first_text(text_at(found, "accelerator", "model"), text_at(old, "model")),
        "accelerators": first(number_at(found, "accelerator", "count"), number_at(old, "count")),
        "engine": first_text(text_at(found, "tool"), text_at(platform, "name")),
        "engine_version": first_text(text_at(found, "tool_version"), text_at(platform, "version")),
        "tensor_parallel": first(number_at(split, "tp"), number_at(old, "parallelism", "tp")),
        "pipeline_parallel": first(number_at(split, "pp"), number_at(old, "parallelism", "pp")),
        "data_parallel": first(number_at(split, "dp"), number_at(old, "parallelism", "dp")),
        "invalid": "it measures several engines; measure one replica" if several else "",
    }


def read_llama_bench(rows: Any) -> Iterator[MeasuredRun]:
    """Runs of llama-bench: prompts alone, and one stream after a context."""
    for row in rows if isinstance(rows, list) else ():
        speed, prompt = number_at(row, "avg_ts"), number_at(row, "n_prompt")
        output, depth = number_at(row, "n_gen"), number_at(row, "n_depth")
        if speed is None or (prompt is None) == (output is None):
            continue
        cards = [name.strip() for name in (text_at(row, "gpu_info") or "").split(",") if name.strip()]
        yield MeasuredRun(
            format=LLAMA_BENCH,
            day=day_of_stamp(text_at(row, "test_time")),
            accelerator=cards[0] if cards else None,
            accelerators=float(len(cards)) or None,
            engine="llama.cpp",
            engine_version=None if number_at(row, "build_number") is None else f"b{at_path(row, 'build_number')}",
            weight_format=quantization(text_at(row, "model_type")),
            batch=1.0,
            input_tokens=first(prompt, depth, 1.0),
            output_tokens=first(output, 1.0),
            tpot_s=None if output is None else 1 / speed,
            ttft_s=divided(prompt, speed),
        )


def quantization(model_type: str | None) -> str | None:
    """The weight format of a model type of llama.cpp, such as `llama 8B Q4_K - Medium`."""
    found = re.search(r"\b(I?Q\d\w*|F16|BF16|F32)(?: - (Small|Medium|Large))?", model_type or "")
    if found is None:
        return None
    name = found[1].lower() + (f"_{found[2][0].lower()}" if found[2] else "")
    return {"bf16": "bf16", "f32": "fp32"}.get(name, f"gguf-{name}")


PLAIN = "headroom"
PLAIN_NUMBERS = (
    "accelerators",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "input_tokens",
    "output_tokens",
    "output_tokens_per_s",
    "sequence_length",
    "global_batch_sequences",
    "step_time_s",
    "tokens_per_s",
)
PLAIN_TEXTS = ("model", "accelerator", "engine", "engine_version", "weight_format", "method")
PLAIN_NAMES = frozenset(
    (*PLAIN_NUMBERS, *PLAIN_TEXTS, "day", "concurrent_requests", "requests_per_s", "offline", "completed_requests")
) | {"failed_requests", "ttft_ms", "tpot_ms", "achieved_requests_per_s"}


def read_plain(node: Any) -> Iterator[MeasuredRun]:
    """The run of a plain object with the names of this service."""
    unknown = sorted(map(str, set(node) - PLAIN_NAMES))
    if unknown:
        listed = ", ".join(sorted(PLAIN_NAMES))
        raise UnreadableText(f"A plain measurement has no field {unknown[0][:MAX_TEXT]!r}. Its fields are {listed}.")
    stated: dict[str, Any] = {name: number_at(node, name) for name in PLAIN_NUMBERS}
    stated |= {name: text_at(node, name) for name in PLAIN_TEXTS}
    yield MeasuredRun(
        format=PLAIN,
        day=day_of_stamp(text_at(node, "day")),
        concurrency=number_at(node, "concurrent_requests"),
        asked_per_s=number_at(node, "requests_per_s"),
        achieved_per_s=number_at(node, "achieved_requests_per_s"),
        offline=True if at_path(node, "offline") is True else None,
        completed=number_at(node, "completed_requests"),
        failed=count(at_path(node, "failed_requests")),
        ttft_s=times(number_at(node, "ttft_ms"), 1e-3),
        tpot_s=times(number_at(node, "tpot_ms"), 1e-3),
        **stated,
    )


LLAMA_FIELDS = {"avg_ts", "n_prompt", "n_gen"}


def reader_of(node: Any, known: Mapping[str, Any]) -> Reader | None:
    """The reader of a decoded document, by its sure marks."""
    if isinstance(node, list):
        return read_llama_bench if node and set(mapping_at(node[0])) >= LLAMA_FIELDS else None
    if not isinstance(node, Mapping):
        return None
    if "request_throughput" in node and ("mean_ttft_ms" in node or "median_ttft_ms" in node or "completed" in node):
        return read_bench_serve
    if "avg_latency" in node and "percentiles" in node:
        return partial(read_bench_latency, known=known)
    if "requests_per_second" in node and "total_num_tokens" in node:
        return partial(read_bench_throughput, known=known)
    if "benchmarks" in node and "metadata" in node:
        return read_guidellm
    if "load_summary" in node and "successes" in node:
        return read_inference_perf
    if "scenario" in node and ("results" in node or "metrics" in node):
        return read_report
    if mapping_at(node, "time_to_first_token") or mapping_at(node, "output_token_throughput"):
        return read_aiperf
    if "aiperf_version" in node and ("metrics" in node or "per_combination_metrics" in node):
        return read_aiperf_aggregate
    if {"output_tokens_per_s", "step_time_s", "tokens_per_s", "ttft_ms", "tpot_ms"} & set(node):
        return read_plain
    return None


SCREEN_LINES = {
    "completed": r"Successful requests:\s*<n>",
    "failed": r"Failed requests:\s*<n>",
    "max_concurrency": r"(?:Maximum request concurrency:|Max request concurrency:|--max-concurrency)\s*<n>",
    "request_rate": r"(?:Request rate configured \(RPS\):|Traffic request rate:|--request-rate)\s*<n>",
    "duration": r"Benchmark duration \(s\):\s*<n>",
    "total_input_tokens": r"Total input tokens:\s*<n>",
    "total_output_tokens": r"Total generated tokens:\s*<n>",
    "request_throughput": r"Request throughput \(req/s\):\s*<n>",
    "output_throughput": r"Output token throughput \(tok/s\):\s*<n>",
    "concurrency": r"^Concurrency:\s*<n>",
    "mean_e2el_ms": r"Mean E2EL? (?:Latency )?\(ms\):\s*<n>",
    "mean_ttft_ms": r"Mean TTFT \(ms\):\s*<n>",
    "median_ttft_ms": r"Median TTFT \(ms\):\s*<n>",
    "p99_ttft_ms": r"P99 TTFT \(ms\):\s*<n>",
    "mean_tpot_ms": r"Mean TPOT \(ms\):\s*<n>",
    "median_tpot_ms": r"Median TPOT \(ms\):\s*<n>",
    "accept_length": r"^(?:Accept|Acceptance) length:\s*<n>",
    "mean_itl_ms": r"Mean ITL \(ms\):\s*<n>",
    "median_itl_ms": r"Median ITL \(ms\):\s*<n>",
    "tensor_parallel_size": r"(?:--tensor-parallel-size|--tp-size|--?tp)[ =]<n>",
}
NUMBER_TEXT = r"(\d[\d,]*(?:\.\d+)?)"
SCREEN = {name: re.compile(pattern.replace("<n>", NUMBER_TEXT)) for name, pattern in SCREEN_LINES.items()}
SERVED_MODEL = re.compile(r"(?:vllm serve|--model(?:-path)?)[ =]+(\w[\w./-]*)")
BACKEND = re.compile(r"^Backend:\s*(\S+)")  # SGLang's table alone has this line
SCREEN_MARK = "Serving Benchmark Result"


def read_screen(text: str) -> Iterator[MeasuredRun]:
    """The run of the table that vllm bench serve and bench_serving print, with the commands above it."""
    found: dict[str, Any] = {}
    lines = split_lines(text)
    for line in check_each(lines):
        for name, pattern in SCREEN.items():
            seen = pattern.search(line)
            if seen:
                found.setdefault(name, seen[1])
        model = SERVED_MODEL.search(line)
        if model:
            found.setdefault("model_id", model[1])
    if backend := next((seen[1] for line in lines if (seen := BACKEND.match(line))), None):
        found |= {"backend": backend, "server_info": None}
    if any("vllm serve " in line for line in lines):
        found["backend"] = "vllm"
    if any("sglang.launch_server" in line for line in lines):
        found |= {"backend": "sglang", "server_info": None}
    if "failed" in found:
        found["failed"] = float(found["failed"].replace(",", ""))
    yield from read_bench_serve(found)


def read_llama_csv(text: str) -> Iterator[MeasuredRun]:
    try:
        rows = [*islice(csv.DictReader(split_lines(text)), MAX_RUNS + 1)]
    except csv.Error as error:
        raise UnreadableText(f"The table is not CSV: {error}.") from None
    yield from read_llama_bench(rows)


LLAMA_MARK = re.compile(r"\| {0,99}test \| {0,99}t/s \|")
LLAMA_TEST = re.compile(r"^\|(.+)\|\s*(pp|tg)(\d+)(?: @ d(\d+))?\s*\|\s*([\d.,]+)\s*(?:±[^|]*)?\|$")


def read_llama_table(text: str) -> Iterator[MeasuredRun]:
    """Runs of the Markdown table of llama-bench."""
    build = re.search(r"build: \w+ \((\d+)\)", text)
    rows = []
    for line in check_each(split_lines(text)):
        found = LLAMA_TEST.match(line)
        if found:
            name, tokens = found[1].split("|")[0], int(found[3][:9])
            rows.append(
                {
                    "model_type": name,
                    "n_prompt": tokens if found[2] == "pp" else 0,
                    "n_gen": tokens if found[2] == "tg" else 0,
                    "n_depth": int(found[4][:9]) if found[4] else 0,
                    "avg_ts": found[5],
                    "build_number": int(build[1][:9]) if build else None,
                }
            )
    yield from read_llama_bench(rows)


MLPERF_MARK = "MLPerf Results Summary"
MLPERF_LINE = re.compile(r"^(.{3,80}?)\s*:\s*(\S.*)$")


def read_mlperf(text: str) -> Iterator[MeasuredRun]:
    """The run of a summary of MLPerf Inference. Latencies are in nanoseconds."""
    matched = (MLPERF_LINE.match(line) for line in check_each(split_lines(text)))
    found = {m[1].strip().lower(): m[2].strip() for m in matched if m}

    def number(*names: str) -> float | None:
        return first(*(positive(found.get(name)) for name in names))

    samples = number("completed samples per second", "samples per second")
    tokens = number("completed tokens per second", "tokens per second")
    scenario, result = found.get("scenario", "").lower(), found.get("result is", "")
    ttft, tpot = number("mean first token latency (ns)"), number("mean time to output token (ns)")
    medians = (
        number("50.00 percentile first token latency (ns)"),
        number("50.00 percentile time to output token (ns)"),
    )
    ttft, tpot = (ttft, tpot) if ttft or tpot else medians
    yield MeasuredRun(
        format="mlperf",
        asked_per_s=number("scheduled samples per second", "target_qps") if scenario == "server" else None,
        achieved_per_s=samples,
        offline=True if scenario == "offline" else None,
        completed=number("min_query_count", "performance_sample_count"),
        output_tokens=divided(tokens, samples),
        output_tokens_per_s=tokens,
        ttft_s=times(ttft, 1e-9),
        tpot_s=times(tpot, 1e-9),
        latency_statistic="mean" if number("mean first token latency (ns)") else "p50",
        invalid="" if result.upper() == "VALID" else f"MLPerf calls the result {result[:20] or 'unknown'}",
    )


def read_pasted_log(text: str, known: Mapping[str, Any]) -> Iterator[MeasuredRun]:
    """The run of a trainer's or an engine's log.

    Parameters:
        known: what the caller states about the run; a trainer's log needs the size of a step and the accelerators.
    """
    sequences, length = known.get("global_batch_sequences"), known.get("sequence_length")
    step_tokens = multiplied(sequences, length)
    accelerators = known.get("accelerators") or 1.0
    context = RunContext(accelerators=accelerators, tokens_per_step=step_tokens, sequences_per_step=sequences)
    reading = read_log(text, context)
    values = {(f.group, f.quantity): f.value for f in reading.figures}
    trained, trainer = values.get(("training", "step_time_s")), likeliest_trainer(LineIndex(split_lines(text)))
    if trained is not None or ("training", "tokens_per_s") in values:
        yield MeasuredRun(
            format="trainer-log",
            engine=None if trainer is None or trainer.name == "huggingface" else trainer.name,
            step_time_s=trained,
            tokens_per_s=values.get(("training", "tokens_per_s")),
        )
    elif ("service", "output_tokens_per_s") in values:
        name = next((f.source.split(" ")[0].lower() for f in reading.figures if f.group == "service"), None)
        yield MeasuredRun(
            format="engine-log",
            engine=name,
            concurrency=values.get(("service", "running")),
            output_tokens_per_s=values[("service", "output_tokens_per_s")],
        )
    elif trainer is not None and reading.notes:
        raise UnusableRun(" ".join(reading.notes))
    else:
        raise UnusableRun(
            "The log has no speed: start-up lines state memory only. Upload the result of a benchmark, and send "
            "start-up lines to POST /diagnose."
        )


def read_measured_runs(text: str, known: Mapping[str, Any] | None = None) -> list[MeasuredRun]:
    """The runs of a file, in its order, each with the digest of its content. Raises UnreadableText and UnusableRun.

    Parameters:
        known: what the caller states about the run, by field of MeasuredRun.
    """
    documents, known = decode_documents(text), known or {}
    if documents and all(set(mapping_at(node)) >= LLAMA_FIELDS for node in documents):
        documents = [documents]  # one row per line
    found: Iterator[MeasuredRun]
    if documents is not None:
        found = (run for node in documents for run in runs_of_document(node, known))
    elif (table := text.strip().removeprefix("\ufeff")).startswith("build_commit,") and ",avg_ts" in table[:1000]:
        found = with_digests(read_llama_csv(table), text)
    elif MLPERF_MARK in text:
        found = with_digests(read_mlperf(text), text)
    elif SCREEN_MARK in text:
        found = with_digests(read_screen(text), text)
    elif LLAMA_MARK.search(text):
        found = with_digests(read_llama_table(text), text)
    else:
        found = with_digests(read_pasted_log(text, known), text)
    runs = [*islice(found, MAX_RUNS + 1)]
    if not runs:
        raise UnreadableText("The file has no result of a run.")
    if len(runs) > MAX_RUNS:
        raise UnreadableText(f"The file has more than {MAX_RUNS} runs. Send at most {MAX_RUNS} at a time.")
    return runs


def runs_of_document(node: Any, known: Mapping[str, Any]) -> Iterator[MeasuredRun]:
    """The runs of one decoded document. Raises UnreadableText if no tool is recognized."""
    reader = reader_of(node, known)
    if reader is None:
        names = ", ".join(sorted(map(str, node))[:5]) if isinstance(node, Mapping) else type(node).__name__
        raise UnreadableText(
            f"The JSON is of no known benchmark; it begins with {names[:MAX_TEXT]}. Known are vllm bench serve, vllm "
            "bench latency, vllm bench throughput, SGLang bench_serving, GuideLLM, AIPerf, GenAI-Perf, inference-perf, "
            "Benchmark Report, llama-bench, MLPerf summaries, logs of trainers and engines, and plain objects with the "
            "fields of this service."
        )
    yield from with_digests(reader(node), json.dumps(node, sort_keys=True, separators=(",", ":")))


def with_digests(runs: Iterable[MeasuredRun], content: str) -> Iterator[MeasuredRun]:
    """The runs with the digest of their content and place; white space at the ends of lines does not count."""
    lines = "\n".join(line.rstrip() for line in content.strip().splitlines())
    for place, run in enumerate(runs):
        digest = hashlib.sha256(f"{place}\n{lines}".encode("utf-8", "surrogatepass")).hexdigest()
        yield replace(run, digest=digest)


def decode_documents(text: str) -> list[Any] | None:
    """The JSON documents of a text, one or one per line; None if the text is no JSON. NaN and Infinity are null."""
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped.startswith(("{", "[")):
        return None
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    documents, place = [], 0
    try:
        while place < len(stripped):
            node, place = decoder.raw_decode(stripped, place)
            documents.append(node)
            if len(documents) > MAX_RUNS:
                raise UnreadableText(f"The file has more than {MAX_RUNS} runs. Send at most {MAX_RUNS} at a time.")
            while place < len(stripped) and stripped[place] in " \t\r\n,":
                place += 1
    except (ValueError, RecursionError) as error:
        if isinstance(error, RecursionError):
            raise UnreadableText("The JSON is nested too deeply.") from None
        if documents or stripped.startswith("{"):
            raise UnreadableText("The file is incomplete or is no valid JSON.") from None
        return None
    return documents
