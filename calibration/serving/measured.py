"""Measured figures of a published row, as load testers define them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from calibration.case import parse_number
from calibration.serving.runs import Start

# Throughput columns that count only generated tokens, although their source says otherwise: 53.1 tokens/s of Llama-3-8B
# in FP16 on one A100 match the generation rate of another source (54.6), which is half of the total rate.
GENERATED_ONLY = frozenset({("argonne-llm-inference-bench", "llama.cpp")})

# Percentiles that are compared but not fitted, as shares of the requests.
TAILS: Mapping[str, float] = MappingProxyType(
    {"ttft_p95_s": 0.95, "ttft_p99_s": 0.99, "tpot_p95_s": 0.95, "tpot_p99_s": 0.99}
)


def measured_figures(row: Mapping[str, Any], *, alone: bool) -> Iterator[tuple[str, float]]:
    """(metric, value) of a row, as load testers define them.

    `decode_tokens_per_s` is the rate of one stream after its first token. For a single stream this is the only
    throughput that is kept where the source gives it: the throughput column states the same figure.
    """
    decode = parse_number(row.get("decode_tok_s_per_user")) if alone else None
    output, total = parse_number(row.get("output_tok_s")), parse_number(row.get("total_tok_s"))
    if (row["source_key"], row["engine"]) in GENERATED_ONLY:
        output, total = total, None
    tpot = parse_number(row.get("tpot_ms_p50")) or parse_number(row.get("tpot_ms_mean"))
    ttft = parse_number(row.get("ttft_ms_p50")) or parse_number(row.get("ttft_ms_mean"))
    prompt = parse_number(row.get("prefill_tok_s")) if alone else None
    if decode:
        yield "decode_tokens_per_s", decode
    elif output:
        yield "output_tokens_per_s", output
    if total and not output:
        yield "total_tokens_per_s", total
    if tpot:
        yield "tpot_s", tpot / 1e3
    if ttft:
        yield "ttft_s", ttft / 1e3
    elif prompt:
        yield "prefill_tokens_per_s", prompt
    whole = parse_number(row.get("e2e_ms_mean"))
    if whole and not (decode or output or total):
        yield "e2e_s", whole / 1e3
    if row.get("run_start") in (Start.BURST, Start.POISSON):
        yield from tail_percentiles(row)


def tail_percentiles(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Percentiles above the median, for runs with overlapping requests."""
    for metric in TAILS:
        what, level, _ = metric.split("_")
        value = parse_number(row.get(f"{what}_ms_{level}"))
        if value:
            yield metric, value / 1e3
