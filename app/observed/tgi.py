"""Metrics of Text Generation Inference.

Source: huggingface/text-generation-inference at 3.3.7, router/src/server.rs, router/src/infer/mod.rs,
backends/v3/src/backend.rs and queue.rs, read 2026-11-23; the same names since 1.0.
Limits: TGI has no TTFT metric; queue time plus prefill time is used. Its mean time per token includes the prefill;
the time of a decode step of the batch is used instead.
"""

from __future__ import annotations

from app.observed.engine import Engine
from app.observed.series import Metric

TGI = Engine(
    name="TGI",
    prefix="tgi_",
    requests=(Metric("tgi_request_success"), Metric("tgi_request_duration_count")),
    prompt_lengths=(Metric("tgi_request_input_length"),),
    answer_lengths=(Metric("tgi_request_generated_tokens"),),
    first_token_parts=(
        Metric("tgi_request_queue_duration"),
        Metric("tgi_batch_inference_duration", "method", "prefill"),
    ),
    token_times=(Metric("tgi_batch_inference_duration", "method", "decode"),),
    queue=(Metric("tgi_request_queue_duration"),),
    running=(Metric("tgi_batch_current_size"),),
    waiting=(Metric("tgi_queue_size"),),
    errors=(Metric("tgi_request_failure"),),
)
