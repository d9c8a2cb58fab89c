"""Metrics of TensorRT-LLM, served by trtllm-serve, Dynamo or Triton.

Source: NVIDIA/TensorRT-LLM, tensorrt_llm/metrics/collector.py (1.1 on; five of them in 1.1, the rest since 1.3), and
triton_backend's metrics reporter with Triton's own user_guide/metrics (24.05 on), read 2026-11-23. Dynamo before 0.8
writes trtllm: instead of trtllm_.
Limits: Triton counts a request once per model of an ensemble; only the model tensorrt_llm is read.
"""

from __future__ import annotations

from app.observed.engine import Engine
from app.observed.series import Metric

BLOCKS = "nv_trt_llm_kv_cache_block_metrics"
REQUESTS = "nv_trt_llm_request_metrics"

TRTLLM = Engine(
    name="TensorRT-LLM",
    prefix="trtllm_",
    requests=(Metric("trtllm_request_success_total"), Metric("trtllm_num_requests_completed_total")),
    prompt_tokens=(Metric("trtllm_prompt_tokens_total"),),
    answer_tokens=(Metric("trtllm_generation_tokens_total"),),
    first_token=(Metric("trtllm_time_to_first_token_seconds"),),
    token_times=(Metric("trtllm_time_per_output_token_seconds"),),
    queue=(Metric("trtllm_request_queue_time_seconds"),),
    running=(Metric("trtllm_num_requests_running"),),
    waiting=(Metric("trtllm_num_requests_waiting"),),
    cache_usage=(Metric("trtllm_kv_cache_utilization"),),
    cache_hits=(Metric("trtllm_prompt_cached_tokens_total"),),
    cache_queries=(Metric("trtllm_prompt_tokens_total"),),
    hit_rate=(Metric("trtllm_kv_cache_hit_rate"),),
    drafted=(Metric("trtllm_spec_decode_num_draft_tokens_total"),),
    accepted=(Metric("trtllm_spec_decode_num_accepted_tokens_total"),),
    errors=(Metric("trtllm_request_error_total"),),
)
TRITON = Engine(
    name="Triton with TensorRT-LLM",
    prefix="nv_",
    requests=(Metric("nv_inference_request_success", "model", "tensorrt_llm"),),
    prompt_lengths=(Metric("nv_llm_input_token_len", "model", "tensorrt_llm"),),
    answer_lengths=(Metric("nv_llm_output_token_len", "model", "tensorrt_llm"),),
    first_token=(Metric("nv_inference_first_response_histogram_ms", "model", "tensorrt_llm", unit=1e-3),),
    running=(Metric(REQUESTS, "request_type", "scheduled"), Metric(REQUESTS, "request_type", "active")),
    waiting=(Metric(REQUESTS, "request_type", "waiting"),),
    cache_usage=(Metric(BLOCKS, "kv_cache_block_type", "fraction"),),
    errors=(Metric("nv_inference_request_failure", "model", "tensorrt_llm"),),
)
