"""What serving engines take and allow."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class ServingAssumptions:
    # The simulation of a scheduler
    simulated_requests: float = assumption(
        10_000,
        low=1_000,
        high=50_000,
        unit="requests",
        reason="simulated at every load of a finalist",
        source="chosen: p99 of a thousand varies by 4 to 24 %",
        as_of="2026-11",
    )
    # Memory beside the weights and the cache
    memory_deviation: float = assumption(
        0.03,
        low=0.0,
        high=0.2,
        unit="1",
        reason="spread of what engines take unforeseen",
        source="51 start-up logs: 0.02 at 80 %, 0.06 at 90 %",
        as_of="2026-11",
    )
    weights_load_overhead: float = assumption(
        1.005,
        low=1.0,
        high=1.15,
        unit="1",
        reason="loaded weights over counted bytes",
        source="start-up logs",
        as_of="2026-11",
    )
    activation_workspace_factor: float = assumption(
        1.5,
        low=1.0,
        high=4.0,
        unit="1",
        reason="workspace over the sum of live tensors",
        source="start-up logs",
        as_of="2026-11",
    )
    runtime_overhead_gib: float = assumption(
        0.25,
        low=0.05,
        high=4.0,
        unit="GiB",
        reason="runtime of an engine, per device",
        source="start-up logs: 0.05 to 0.35",
        as_of="2026-11",
    )
    graph_overhead_gib: float = assumption(
        1.0,
        low=0.0,
        high=5.0,
        unit="GiB",
        reason="captured graphs per device",
        source="start-up logs",
        as_of="2026-11",
    )
    parallel_overhead_gib: float = assumption(
        1.0,
        low=0.0,
        high=4.0,
        unit="GiB",
        reason="communication buffers per device",
        source="start-up logs: 0.2 to 2.1",
        as_of="2026-11",
    )
    small_runtime_overhead_gib: float = assumption(
        0.6,
        low=0.1,
        high=2.0,
        unit="GiB",
        reason="runtime of llama.cpp, MLX and the like",
        source="chosen",
        as_of="2026-11",
    )
    max_sequences_small_engine: float = assumption(
        16,
        low=1,
        high=256,
        unit="sequences",
        reason="slots an engine is started with that must be told",
        source="chosen",
        as_of="2026-11",
    )
    # What a host does for every request of single-pass work
    tokeniser_tokens_per_s: float = assumption(
        6e5,
        low=2e4,
        high=2e7,
        unit="tokens/s",
        reason="text into tokens, on one core",
        source="HF tokenizers: 2.7 to 4 MiB/s a thread",
        as_of="2026-02",
    )
    image_megapixels_per_s: float = assumption(
        60,
        low=5,
        high=1000,
        unit="megapixel/s",
        reason="pictures decoded and resized, on one core",
        source="ImageNet at 540 to 860/s (arXiv:2605.08731)",
        as_of="2026-05",
    )
    sent_image_megapixels: float = assumption(
        0.2,
        low=0.01,
        high=200,
        unit="megapixel",
        reason="picture as it is sent, at least",
        source="ImageNet's mean",
        as_of="2026-11",
    )
    audio_s_per_s: float = assumption(
        1000,
        low=50,
        high=50_000,
        unit="s/s",
        reason="sound into spectrograms, on one core",
        source="transformers#29901: 160 to 960",
        as_of="2024-06",
    )
    server_request_ms: float = assumption(
        0.2,
        low=0.01,
        high=50,
        unit="ms",
        reason="HTTP and JSON of a request, on one core",
        source="chosen: between compiled servers and Python",
        as_of="2026-11",
    )
    server_serial_us: float = assumption(
        20,
        low=1,
        high=5000,
        unit="us",
        reason="of a request, what one thread of its server does",
        source="sbert.net: small networks take 35 us and more",
        as_of="2026-11",
    )
    host_work_share: float = assumption(
        1.0,
        low=0.0,
        high=1.0,
        unit="1",
        reason="of that work, what the same machine does",
        source="chosen: clients send text, JPEG and sound",
        as_of="2026-11",
    )
    vcpus_per_accelerator: float = assumption(
        16,
        low=1,
        high=512,
        unit="vCPUs",
        reason="of a host, beside each accelerator, unlisted",
        source="clouds: 4 to 64, most 12 to 26",
        as_of="2026-11",
    )
    socket_vcpus: float = assumption(
        128,
        low=2,
        high=1024,
        unit="vCPUs",
        reason="of a processor, unlisted",
        source="chosen: 64 cores",
        as_of="2026-11",
    )
    cores_per_vcpu: float = assumption(
        0.6,
        low=0.4,
        high=1.0,
        unit="1",
        reason="of a core's work, what a vCPU does",
        source="chosen: mostly one of two threads",
        as_of="2026-11",
    )
    padded_share: float = assumption(
        0.5,
        low=0.0,
        high=1.0,
        unit="1",
        reason="from mean to long texts, how far batches are padded",
        source="chosen: batches sorted by length pad less",
        as_of="2026-11",
    )
    model_load_gb_per_s: float = assumption(
        2.0,
        low=0.05,
        high=100,
        unit="GB/s",
        reason="a machine reads weights from storage",
        source="chosen: an NVMe disk",
        as_of="2026-11",
    )
    engine_start_s: float = assumption(
        45,
        low=1,
        high=1800,
        unit="s",
        reason="start and graph capture of an engine",
        source="start-up logs",
        as_of="2026-11",
    )
    # Plans that are judged, and what bounds them
    overhead_memory_fraction_limit: float = assumption(
        0.12,
        low=0.02,
        high=0.5,
        unit="1",
        reason="most of a device that overhead takes",
        source="chosen",
        as_of="2026-11",
    )
    max_samples: float = assumption(
        256,
        low=1,
        high=65536,
        unit="samples",
        reason="largest batch that is tried",
        source="chosen",
        as_of="2026-11",
    )
    prefill_share_limit: float = assumption(
        0.98,
        low=0.5,
        high=1.0,
        unit="1",
        reason="most of its time a replica may prefill",
        source="chosen",
        as_of="2026-11",
    )
    full_cache_share: float = assumption(
        0.6,
        low=0.1,
        high=1.0,
        unit="1",
        reason="of what fits, from where memory binds",
        source="chosen",
        as_of="2026-11",
    )
    replica_memory_fraction: float = assumption(
        0.85,
        low=0.3,
        high=1.0,
        unit="1",
        reason="of a device, most that weights take",
        source="chosen",
        as_of="2026-11",
    )
    exchange_bandwidth_share: float = assumption(
        0.7,
        low=0.4,
        high=0.95,
        unit="1",
        reason="large: 43 of 50, 158 of 160 GB/s; small: 39, 98 to 127",
        source="deepseek-ai/DeepEP@dd758ca docs/legacy.md",
        as_of="2026-11",
    )
    split_first_token_factor: float = assumption(
        2.0,
        low=1,
        high=4,
        unit="1",
        reason="pools' first tokens beside unsplit ones: 2.0 in both sources",
        source="67 published rows of two pools",
        as_of="2026-11",
    )
    max_nodes_per_replica: float = assumption(
        8,
        low=1,
        high=64,
        unit="machines",
        reason="most machines of one replica",
        source="chosen",
        as_of="2026-11",
    )
