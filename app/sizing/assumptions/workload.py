"""Default values for what a request leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class WorkloadAssumptions:
    # Traffic and limits
    confidence: float = assumption(
        0.8,
        low=0.5,
        high=0.95,
        reason="probability of meeting all limits",
        source="assumed: four of five",
    )
    target_utilization: float = assumption(
        0.9,
        low=0.05,
        high=1.0,
        reason="largest planned share of a replica's stable rate",
        source="assumed: queues grow near the stable rate",
    )
    busy_hour_factor: float = assumption(
        3.0,
        low=1.0,
        high=20.0,
        reason="busiest minute over the hourly mean, for given users",
        source="assumed: users come in waves",
    )
    average_to_peak: float = assumption(
        0.4,
        low=0.01,
        high=1.0,
        reason="mean load over peak load",
        source="assumed: daily load curve",
    )
    default_ttft_ms: float = assumption(
        2000,
        low=10,
        high=600000,
        unit="ms",
        reason="TTFT limit if none is given",
        source="MLPerf Llama 2 70B server",
        as_of="2024-08",
    )
    default_ttft_ms_per_prompt_token: float = assumption(
        0.64,
        low=0,
        high=100,
        unit="ms",
        reason="TTFT limit per prompt token, for long prompts",
        source="MLPerf: 6 s at about 9,400 tokens",
        as_of="2025-04",
    )
    default_tpot_ms: float = assumption(
        100,
        low=1,
        high=60000,
        unit="ms",
        reason="TPOT limit if none is given",
        source="assumed: faster than people read",
    )
    personal_ttft_ms: float = assumption(
        10000,
        low=1,
        high=600000,
        unit="ms",
        reason="TTFT limit for personal use if none is given",
        source="assumed: a person waits for their own machine",
    )
    personal_tpot_ms: float = assumption(
        200,
        low=1,
        high=60000,
        unit="ms",
        reason="TPOT limit for personal use if none is given",
        source="Brysbaert 2019: 238 words per minute, 1.3 tokens per word",
    )
    default_e2e_ms: float = assumption(
        1000,
        low=1,
        high=600000,
        unit="ms",
        reason="latency limit of a single pass if none is given",
        source="assumed: one interaction",
    )
    default_picture_e2e_ms: float = assumption(
        20000,
        low=1,
        high=3600000,
        unit="ms",
        reason="latency limit of an image if none is given",
        source="MLPerf SDXL server",
        as_of="2024-08",
    )
    default_clip_e2e_ms: float = assumption(
        600000,
        low=1,
        high=86400000,
        unit="ms",
        reason="latency limit of a video clip if none is given",
        source="assumed: minutes",
    )
    default_real_time_factor: float = assumption(
        0.5,
        low=0.01,
        high=10,
        reason="latency limit of a transcript, over the audio's duration",
        source="assumed: twice as fast as the speech",
    )
    most_personal_in_flight: float = assumption(
        4,
        low=1,
        high=64,
        unit="requests",
        reason="most requests in flight that count as personal use",
        source="assumed",
    )
    least_server_power_w: float = assumption(
        300,
        low=50,
        high=2000,
        unit="W",
        reason="power limit below which non-server hardware is allowed",
        source="assumed: a small host with one card",
    )
    session_turn_gap_s: float = assumption(
        60,
        low=0,
        high=604800,
        unit="s",
        reason="time from an answer to the next request of a session",
        source="assumed: people read and type; agents run tools",
    )
    trace_window_s: float = assumption(
        60,
        low=1,
        high=3600,
        unit="s",
        reason="longest window of a trace that sets the peak rate",
        source="assumed: one minute",
    )
    # Lengths
    default_input_tokens: float = assumption(
        512,
        low=1,
        high=1e6,
        unit="tokens",
        reason="prompt length if none is given",
        source="assumed: one chat turn",
    )
    default_output_tokens: float = assumption(
        256,
        low=1,
        high=1e6,
        unit="tokens",
        reason="output length if none is given",
        source="assumed: one chat turn",
    )
    length_p95_to_mean: float = assumption(
        2.0,
        low=1.0,
        high=5.0,
        reason="p95 length over mean length if only the mean is given",
        source="assumed: chats vary more, templates less",
    )
    longest_percentile: float = assumption(
        99.9,
        low=97,
        high=99.9999,
        unit="%",
        reason="percentile at which lengths end that have a mean and a p95",
        source="assumed: clients and windows bound lengths",
    )
    context_percentile: float = assumption(
        95,
        low=50,
        high=99.9,
        unit="%",
        reason="percentile of lengths that the longest context covers",
        source="assumed",
    )
    default_percentile: float = assumption(
        95,
        low=50,
        high=99.9,
        unit="%",
        reason="percentile of requests that must meet the limits",
        source="assumed: usual value",
    )
    # Training runs
    default_sequence_tokens: float = assumption(
        4096,
        low=1,
        high=1e7,
        unit="tokens",
        reason="training sequence length if none is given",
        source="Llama 2 (arXiv:2307.09288)",
        as_of="2023-07",
    )
    longest_sequence_over_context: float = assumption(
        16,
        low=1,
        high=1000,
        reason="longest training sequence in multiples of the context",
        source="assumed",
    )
    default_batch_tokens_at_1b: float = assumption(
        1e6,
        low=1e3,
        high=1e9,
        unit="tokens",
        reason="global batch of a model with 10^9 parameters",
        source="GPT-3 1.3B: 1 million tokens (arXiv:2005.14165)",
        as_of="2020-05",
    )
    default_batch_exponent: float = assumption(
        0.5,
        low=0,
        high=1,
        reason="exponent of the parameter count in the default global batch",
        source="Llama 3 405B: 16 million tokens (arXiv:2407.21783)",
        as_of="2024-07",
    )
    near_batch_share: float = assumption(
        0.1,
        low=0,
        high=1,
        reason="largest deviation from the requested global batch",
        source="assumed: within the variation of published runs",
    )
    default_fine_tuning_batch_sequences: float = assumption(
        16,
        low=1,
        high=1e7,
        unit="sequences",
        reason="global batch of fine-tuning if none is given",
        source="QLoRA (arXiv:2305.14314)",
        as_of="2023-05",
    )
    default_batch_samples: float = assumption(
        256,
        low=1,
        high=1e7,
        unit="samples",
        reason="global batch of sample training if none is given",
        source="ResNet (arXiv:1512.03385)",
        as_of="2015-12",
    )
    default_lora_rank: float = assumption(
        16,
        low=1,
        high=4096,
        reason="LoRA rank if none is given",
        source="assumed: 8 to 64 are common",
    )
    default_training_days: float = assumption(
        30,
        low=0.01,
        high=3650,
        unit="days",
        reason="training deadline if none is given",
        source="assumed: one month",
    )
    default_fine_tuning_hours: float = assumption(
        24,
        low=0.1,
        high=8760,
        unit="hours",
        reason="fine-tuning deadline if none is given",
        source="assumed: one day",
    )
