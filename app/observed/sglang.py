"""Metrics of SGLang.

Source: sgl-project/sglang, python/sglang/srt/observability/metrics_collector.py (0.5, before srt/metrics/collector.py,
0.4 on), docs/references/production_metrics.md, read 2026-11-23. Names: time_per_output_token_seconds counts gaps
between tokens; it became inter_token_latency_seconds with 0.4.6. num_retracted_requests_total exists since 0.5.
cache_hit_rate covers only the last prefill and is the last choice.
"""

from __future__ import annotations

from app.observed.engine import Engine
from app.observed.series import Metric

SGLANG = Engine(
    name="SGLang",
    prefix="sglang:",
    requests=(Metric("sglang_num_requests_total"), Metric("sglang_e2e_request_latency_seconds_count")),
    prompt_tokens=(Metric("sglang_prompt_tokens_total"),),
    answer_tokens=(Metric("sglang_generation_tokens_total"),),
    prompt_lengths=(Metric("sglang_prompt_tokens_histogram"),),
    answer_lengths=(Metric("sglang_generation_tokens_histogram"),),
    first_token=(Metric("sglang_time_to_first_token_seconds"),),
    token_times=(
        Metric("sglang_inter_token_latency_seconds"),
        Metric("sglang_time_per_output_token_seconds"),
    ),
    queue=(Metric("sglang_queue_time_seconds"),),
    running=(Metric("sglang_num_running_reqs"),),
    waiting=(Metric("sglang_num_queue_reqs"),),
    cache_usage=(Metric("sglang_token_usage"),),
    preemptions=(Metric("sglang_num_retracted_requests_total"),),
    cache_hits=(Metric("sglang_cached_tokens_total"),),
    cache_queries=(Metric("sglang_prompt_tokens_total"),),
    hit_rate=(Metric("sglang_cache_hit_rate"),),
    accepted_share=(Metric("sglang_spec_accept_rate"),),
    errors=(Metric("sglang_num_aborted_requests_total"),),
    start_s=(Metric("sglang_startup_time_seconds", "phase", "tokenizer_e2e"), Metric("sglang_engine_startup_time")),
)
