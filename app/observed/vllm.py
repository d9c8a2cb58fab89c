"""Metrics of vLLM.

Source: vllm-project/vllm, vllm/v1/metrics/loggers.py, vllm/v1/spec_decode/metrics.py (0.8 on) and
vllm/engine/metrics.py (0.4 to 0.10), read 2026-11-23; docs.vllm.ai/en/v0.32.0/usage/metrics. Names: with 0.9
gpu_cache_usage_perc became kv_cache_usage_perc and gpu_prefix_cache_* became prefix_cache_*.
time_per_output_token_seconds counts gaps between tokens; with 0.11 it became inter_token_latency_seconds, and
request_time_per_output_token_seconds was added (pull request 24015).
"""

from __future__ import annotations

from app.observed.engine import Engine
from app.observed.series import Metric

VLLM = Engine(
    name="vLLM",
    prefix="vllm:",
    requests=(Metric("vllm_request_success_total"),),
    prompt_tokens=(Metric("vllm_prompt_tokens_total"),),
    answer_tokens=(Metric("vllm_generation_tokens_total"),),
    prompt_lengths=(Metric("vllm_request_prompt_tokens"),),
    answer_lengths=(Metric("vllm_request_generation_tokens"),),
    first_token=(Metric("vllm_time_to_first_token_seconds"),),
    token_times=(
        Metric("vllm_request_time_per_output_token_seconds"),
        Metric("vllm_inter_token_latency_seconds"),
        Metric("vllm_time_per_output_token_seconds"),
    ),
    queue=(Metric("vllm_request_queue_time_seconds"),),
    running=(Metric("vllm_num_requests_running"),),
    waiting=(Metric("vllm_num_requests_waiting"),),
    cache_usage=(Metric("vllm_kv_cache_usage_perc"), Metric("vllm_gpu_cache_usage_perc")),
    preemptions=(Metric("vllm_num_preemptions_total"),),
    cache_hits=(Metric("vllm_prefix_cache_hits_total"), Metric("vllm_gpu_prefix_cache_hits_total")),
    cache_queries=(Metric("vllm_prefix_cache_queries_total"), Metric("vllm_gpu_prefix_cache_queries_total")),
    drafted=(Metric("vllm_spec_decode_num_draft_tokens_total"),),
    accepted=(Metric("vllm_spec_decode_num_accepted_tokens_total"),),
    errors=(Metric("vllm_request_success_total", "finished_reason", "error"),),
)
