"""What is put in where a request leaves it open."""

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
        unit="1",
        reason="with which all that is asked holds",
        source="chosen: four of five",
        as_of="2026-11",
    )
    target_utilization: float = assumption(
        0.7,
        low=0.05,
        high=1.0,
        unit="1",
        reason="of its capacity, what a replica carries",
        source="chosen: queues stay short",
        as_of="2026-11",
    )
    busy_hour_factor: float = assumption(
        3.0,
        low=1.0,
        high=20.0,
        unit="1",
        reason="busiest minute over the users' hourly mean",
        source="chosen: waves of users",
        as_of="2026-11",
    )
    average_to_peak: float = assumption(
        0.4,
        low=0.01,
        high=1.0,
        unit="1",
        reason="mean over peak load",
        source="chosen: a day's curve",
        as_of="2026-11",
    )
    default_ttft_ms: float = assumption(
        2000,
        low=10,
        high=600000,
        unit="ms",
        reason="TTFT limit where none is given",
        source="MLPerf's Llama 2 70B server",
        as_of="2024-08",
    )
    default_ttft_ms_per_prompt_token: float = assumption(
        0.64,
        low=0,
        high=100,
        unit="ms",
        reason="TTFT limit of long prompts, per token",
        source="MLPerf: 6 s at about 9,400",
        as_of="2025-04",
    )
    default_tpot_ms: float = assumption(
        100,
        low=1,
        high=60000,
        unit="ms",
        reason="TPOT limit where none is given",
        source="chosen: outpaces reading",
        as_of="2026-11",
    )
    personal_ttft_ms: float = assumption(
        10000,
        low=1,
        high=600000,
        unit="ms",
        reason="TTFT limit of personal use where none is given",
        source="chosen: one waits for one's own machine",
        as_of="2026-11",
    )
    personal_tpot_ms: float = assumption(
        200,
        low=1,
        high=60000,
        unit="ms",
        reason="TPOT limit of personal use where none is given",
        source="Brysbaert 2019: 238 words a minute; 1.3 tokens each",
        as_of="2026-11",
    )
    default_e2e_ms: float = assumption(
        1000,
        low=1,
        high=600000,
        unit="ms",
        reason="limit of a single pass where none is given",
        source="chosen: one interaction",
        as_of="2026-11",
    )
    default_picture_e2e_ms: float = assumption(
        20000,
        low=1,
        high=3600000,
        unit="ms",
        reason="limit of a picture where none is given",
        source="MLPerf's SDXL server",
        as_of="2024-08",
    )
    default_clip_e2e_ms: float = assumption(
        600000,
        low=1,
        high=86400000,
        unit="ms",
        reason="limit of a clip where none is given",
        source="chosen: minutes",
        as_of="2026-11",
    )
    most_personal_in_flight: float = assumption(
        4,
        low=1,
        high=64,
        unit="requests",
        reason="in flight of one person or very few",
        source="chosen",
        as_of="2026-11",
    )
    least_server_power_w: float = assumption(
        300,
        low=50,
        high=2000,
        unit="W",
        reason="a limit of power below this asks for no server",
        source="chosen: a small host and one card",
        as_of="2026-11",
    )
    session_turn_gap_s: float = assumption(
        60,
        low=0,
        high=604800,
        unit="s",
        reason="from an answer to the session's next request",
        source="chosen: people read and type, agents' tools run",
        as_of="2026-11",
    )
    trace_window_s: float = assumption(
        60,
        low=1,
        high=3600,
        unit="s",
        reason="longest stretch whose rate a trace is planned for",
        source="chosen: a minute",
        as_of="2026-11",
    )
    # Lengths
    default_input_tokens: float = assumption(
        512,
        low=1,
        high=1e6,
        unit="tokens",
        reason="prompt where none is given",
        source="chosen: a chat turn",
        as_of="2026-11",
    )
    default_output_tokens: float = assumption(
        256,
        low=1,
        high=1e6,
        unit="tokens",
        reason="answer where none is given",
        source="chosen: a chat turn",
        as_of="2026-11",
    )
    length_p95_to_mean: float = assumption(
        2.0,
        low=1.0,
        high=5.0,
        unit="1",
        reason="p95 of lengths over their mean where only that is told",
        source="chosen: chats vary more, templates less",
        as_of="2026-11",
    )
    context_percentile: float = assumption(
        95,
        low=50,
        high=99.9,
        unit="%",
        reason="of lengths in the longest context",
        source="chosen",
        as_of="2026-11",
    )
    default_percentile: float = assumption(
        95,
        low=50,
        high=99.9,
        unit="%",
        reason="of requests that must meet the limits",
        source="chosen: usual",
        as_of="2026-11",
    )
    # Runs
    default_sequence_tokens: float = assumption(
        4096,
        low=1,
        high=1e7,
        unit="tokens",
        reason="training sequence where none is given",
        source="Llama 2 (arXiv:2307.09288)",
        as_of="2023-07",
    )
    longest_sequence_over_context: float = assumption(
        16,
        low=1,
        high=1000,
        unit="1",
        reason="longest training sequence over the context",
        source="chosen",
        as_of="2026-11",
    )
    default_batch_tokens_at_1b: float = assumption(
        1e6,
        low=1e3,
        high=1e9,
        unit="tokens",
        reason="global batch of a model of 10^9 parameters",
        source="GPT-3 1.3B: 1 M (arXiv:2005.14165)",
        as_of="2020-05",
    )
    default_batch_exponent: float = assumption(
        0.5,
        low=0,
        high=1,
        unit="1",
        reason="growth of that batch with the parameters",
        source="Llama 3 405B: 16 M (arXiv:2407.21783)",
        as_of="2024-07",
    )
    near_batch_share: float = assumption(
        0.1,
        low=0,
        high=1,
        unit="1",
        reason="how far a batch that divides may be from it",
        source="chosen: within what runs vary it",
        as_of="2026-11",
    )
    default_fine_tuning_batch_sequences: float = assumption(
        16,
        low=1,
        high=1e7,
        unit="sequences",
        reason="global batch where none is given",
        source="QLoRA (arXiv:2305.14314)",
        as_of="2023-05",
    )
    default_batch_samples: float = assumption(
        256,
        low=1,
        high=1e7,
        unit="samples",
        reason="global batch where none is given",
        source="ResNet (arXiv:1512.03385)",
        as_of="2015-12",
    )
    default_lora_rank: float = assumption(
        16,
        low=1,
        high=4096,
        unit="1",
        reason="rank of adapters where none is given",
        source="chosen: 8 to 64 are common",
        as_of="2026-11",
    )
    default_training_days: float = assumption(
        30,
        low=0.01,
        high=3650,
        unit="days",
        reason="deadline where none is given",
        source="chosen: one month",
        as_of="2026-11",
    )
    default_fine_tuning_hours: float = assumption(
        24,
        low=0.1,
        high=8760,
        unit="hours",
        reason="deadline where none is given",
        source="chosen: one day",
        as_of="2026-11",
    )
