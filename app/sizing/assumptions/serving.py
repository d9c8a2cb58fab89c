"""Assumptions about serving: simulation, memory, host work, plans, daily load, autoscaling and shared cards."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class DayAssumptions:
    smooth_day_peak_hour: float = assumption(
        14,
        low=0,
        high=23,
        unit="h",
        reason="busiest hour if only the peak-to-average ratio is given",
        source="assumed: early afternoon",
    )
    # Start of a replica
    machine_start_s: float = assumption(
        120,
        low=0,
        high=3600,
        unit="s",
        reason="time until a rented machine runs containers",
        source="cloud providers: 60 to 120 s, plus 20 to 40 s for drivers",
    )
    image_gb: float = assumption(
        12,
        low=0.1,
        high=60,
        unit="GB",
        reason="compressed container image of an engine",
        source="vLLM issue 27154: about 12 GB; SGLang issue 3673: 11 GB",
        as_of="2025-10",
    )
    large_image_gb: float = assumption(
        16.2,
        low=0.1,
        high=60,
        unit="GB",
        reason="compressed container image with a whole toolkit",
        source="TensorRT-LLM issue 8270: 16.24 GB",
        as_of="2025-10",
    )
    small_image_gb: float = assumption(
        2.5,
        low=0.01,
        high=20,
        unit="GB",
        reason="compressed container image of llama.cpp and similar",
        source="assumed: CUDA libraries and one binary",
    )
    image_pull_gb_per_s: float = assumption(
        0.2,
        low=0.01,
        high=5,
        unit="GB/s",
        reason="rate at which a machine pulls and unpacks an image",
        source="assumed: 12 GB in one minute",
    )
    registry_gb_per_s: float = assumption(
        5,
        low=0.05,
        high=500,
        unit="GB/s",
        reason="total rate of the container registry for all machines",
        source="assumed: 40 Gbit/s",
    )
    weight_store_gb_per_s: float = assumption(
        12.5,
        low=0.05,
        high=1000,
        unit="GB/s",
        reason="total rate of the weight storage for all machines",
        source="assumed: 100 Gbit/s",
    )
    # Scaling out and in, idle machines, failures
    autoscaler_reaction_s: float = assumption(
        30,
        low=0,
        high=900,
        unit="s",
        reason="time from a load change to a scaling decision",
        source="Kubernetes: polls every 15 s, metrics as old again",
    )
    scale_in_delay_s: float = assumption(
        300,
        low=0,
        high=7200,
        unit="s",
        reason="time that a replica no longer needed is kept",
        source="Kubernetes: stabilization window",
    )
    scale_to_zero_after_s: float = assumption(
        300,
        low=1,
        high=86400,
        unit="s",
        reason="time without requests before the last replica stops",
        source="assumed: same as the scale-in delay",
    )
    idle_power_share: float = assumption(
        0.4,
        low=0.05,
        high=1,
        reason="power of an idle machine, share of power under load",
        source="assumed: between a third and a half",
    )
    failure_detection_s: float = assumption(
        30,
        low=0,
        high=900,
        unit="s",
        reason="time from a failure to the start of a new replica",
        source="Kubernetes: three probes, 10 s apart",
    )


@dataclass(frozen=True)
class PackingAssumptions:
    default_loaded_adapters: float = assumption(
        8,
        low=1,
        high=4096,
        unit="adapters",
        reason="LoRA adapters loaded with the base model by default",
        source="SGLang LoRA page: max-loras-per-batch",
    )
    packed_memory_share: float = assumption(
        0.95,
        low=0.5,
        high=1.0,
        reason="share of a shared card's memory for all engines",
        source="assumed: leaves room for drivers and fragmentation",
    )
    packed_time_share: float = assumption(
        0.95,
        low=0.3,
        high=1.0,
        reason="share of a shared card's time for all models",
        source="assumed: the rest is lost to switching",
    )
    packed_types: float = assumption(
        3,
        low=1,
        high=50,
        unit="types",
        reason="types tried for shared cards; fewer for over 4 models",
        source="assumed: the types that are best for the first model",
    )
    packing_step_share: float = assumption(
        0.05,
        low=0.05,
        high=0.5,
        reason="step size of the shares of a card",
        source="assumed: finer steps save little",
    )
    slice_memory_fraction: float = assumption(
        0.95,
        low=0.8,
        high=1.0,
        reason="usable share of a MIG slice's memory",
        source="nvidia-smi mig -lgip, A100: 9.5 of 10 GiB",
    )
    slice_compute_fraction: float = assumption(
        0.85,
        low=0.6,
        high=1.0,
        reason="usable share of a MIG slice's compute",
        source="nvidia-smi mig -lgip, H100: 16 of 132 / 7 SMs",
    )


@dataclass(frozen=True)
class ServingAssumptions:
    # Scheduler simulation
    simulated_requests: float = assumption(
        5_000,
        low=1_000,
        high=50_000,
        unit="requests",
        reason="requests simulated per load and finalist",
        source="counted: capacity within limits varies by 1 to 12 %",
    )
    # Memory other than weights and KV cache
    memory_deviation: float = assumption(
        0.03,
        low=0.0,
        high=0.2,
        reason="standard deviation of the predicted engine memory",
        source="51 start-up logs: 0.02 at 80 %, 0.06 at 90 %",
    )
    weights_load_overhead: float = assumption(
        1.002,
        low=1.0,
        high=1.15,
        reason="loaded weights over the counted weight bytes",
        source="start-up logs",
    )
    activation_workspace_factor: float = assumption(
        1.2,
        low=1.0,
        high=4.0,
        reason="workspace over the sum of live tensors",
        source="start-up logs: 1.1 to 1.2",
    )
    runtime_overhead_gib: float = assumption(
        0.25,
        low=0.05,
        high=4.0,
        unit="GiB",
        reason="runtime overhead of an engine, per device",
        source="start-up logs: 0.05 to 0.35 GiB",
    )
    graph_overhead_gib: float = assumption(
        1.0,
        low=0.0,
        high=5.0,
        unit="GiB",
        reason="memory of captured graphs, per device",
        source="start-up logs",
    )
    parallel_overhead_gib: float = assumption(
        1.0,
        low=0.0,
        high=4.0,
        unit="GiB",
        reason="communication buffers on a scale-up link, per device",
        source="start-up logs: 0.2 to 2.1 GiB",
    )
    pcie_parallel_overhead_gib: float = assumption(
        0.2,
        low=0.0,
        high=4.0,
        unit="GiB",
        reason="communication buffers on PCIe or a network, per device",
        source="start-up logs: 0.1 to 0.5 GiB",
    )
    small_runtime_overhead_gib: float = assumption(
        0.6,
        low=0.1,
        high=2.0,
        unit="GiB",
        reason="runtime overhead of llama.cpp, MLX and similar engines",
        source="assumed",
    )
    max_sequences_small_engine: float = assumption(
        16,
        low=1,
        high=256,
        unit="sequences",
        reason="parallel slots of an engine that must be given a number",
        source="assumed",
    )
    # Host work per request of single-pass models
    tokeniser_tokens_per_s: float = assumption(
        6e5,
        low=2e4,
        high=2e7,
        unit="tokens/s",
        reason="tokenizer rate on one core",
        source="HF tokenizers: 2.7 to 4 MiB/s per thread",
        as_of="2026-02",
    )
    image_megapixels_per_s: float = assumption(
        60,
        low=5,
        high=1000,
        unit="megapixel/s",
        reason="image decoding and resizing rate on one core",
        source="ImageNet at 540 to 860 images/s (arXiv:2605.08731)",
        as_of="2026-05",
    )
    sent_image_megapixels: float = assumption(
        0.2,
        low=0.01,
        high=200,
        unit="megapixel",
        reason="smallest size of an image as the client sends it",
        source="mean size in ImageNet",
    )
    audio_s_per_s: float = assumption(
        1000,
        low=50,
        high=50_000,
        unit="s/s",
        reason="audio seconds preprocessed per second on one core",
        source="transformers issue 29901: 160 to 960",
        as_of="2024-06",
    )
    server_request_ms: float = assumption(
        0.2,
        low=0.01,
        high=50,
        unit="ms",
        reason="HTTP and JSON time per request on one core",
        source="assumed: between compiled servers and Python",
    )
    server_serial_us: float = assumption(
        20,
        low=1,
        high=5000,
        unit="us",
        reason="single-threaded server time per request",
        source="sbert.net: small networks take 35 us and more",
    )
    host_work_share: float = assumption(
        1.0,
        low=0.0,
        high=1.0,
        reason="share of preprocessing that runs on the same machine",
        source="assumed: clients send text, JPEG and audio",
    )
    vcpus_per_accelerator: float = assumption(
        16,
        low=1,
        high=512,
        unit="vCPUs",
        reason="vCPUs per accelerator if the host lists none",
        source="cloud instances: 4 to 64, most 12 to 26",
    )
    socket_vcpus: float = assumption(
        128,
        low=2,
        high=1024,
        unit="vCPUs",
        reason="vCPUs of a CPU socket if none are listed",
        source="assumed: 64 cores",
    )
    cores_per_vcpu: float = assumption(
        0.6,
        low=0.4,
        high=1.0,
        reason="throughput of a vCPU over a full core",
        source="assumed: usually one of two threads of a core",
    )
    padded_share: float = assumption(
        0.5,
        low=0.0,
        high=1.0,
        reason="padding of batches, from mean (0) to long (1) texts",
        source="assumed: batches sorted by length need less padding",
    )
    model_load_gb_per_s: float = assumption(
        2.0,
        low=0.05,
        high=100,
        unit="GB/s",
        reason="rate at which a machine reads weights from storage",
        source="assumed: one NVMe disk",
    )
    engine_start_s: float = assumption(
        45,
        low=1,
        high=1800,
        unit="s",
        reason="engine start and graph capture time",
        source="start-up logs",
    )
    # Limits on the plans that are judged
    overhead_memory_fraction_limit: float = assumption(
        0.12,
        low=0.02,
        high=0.5,
        reason="largest share of device memory that overhead may take",
        source="assumed",
    )
    max_samples: float = assumption(
        256,
        low=1,
        high=65536,
        unit="samples",
        reason="largest batch that is tried",
        source="assumed",
    )
    prefill_share_limit: float = assumption(
        0.98,
        low=0.5,
        high=1.0,
        reason="largest share of time that a replica may spend on prefill",
        source="assumed",
    )
    full_cache_share: float = assumption(
        0.6,
        low=0.1,
        high=1.0,
        reason="share of the fitting batch above which memory is the limit",
        source="assumed",
    )
    replica_memory_fraction: float = assumption(
        0.85,
        low=0.3,
        high=1.0,
        reason="largest share of device memory for weights",
        source="assumed",
    )
    # Large messages: 43 of 50 and 158 of 160 GB/s; small messages: 39 and 98 to 127 GB/s.
    exchange_bandwidth_share: float = assumption(
        0.7,
        low=0.4,
        high=0.95,
        reason="bandwidth share that expert all-to-all reaches",
        source="deepseek-ai/DeepEP@dd758ca docs/legacy.md",
    )
    pipelined_chunks_per_stage: float = assumption(
        16,
        low=1,
        high=64,
        unit="chunks",
        reason="chunks of a prompt per pipeline stage after the first",
        source="assumed",
    )
    least_pipelined_chunk_tokens: float = assumption(
        2048,
        low=256,
        high=16384,
        unit="tokens",
        reason="smallest step that is chosen to fill a pipeline",
        source="vllm/engine/arg_utils.py: get_batch_defaults",
    )
    # Measured over predicted prefill in these results: a median of 2.55 with prompts of 1,024 tokens, 1.92 (quartiles
    # 1.45 and 2.37) with 8,192. None has longer prompts. The excess grows with the prefill, so it is a factor: 0.75 s
    # (median) where less than 1 s is predicted, 1.8 s where 1 to 5 s are.
    split_first_token_factor: float = assumption(
        2.0,
        low=1,
        high=4,
        reason="TTFT with split pools over TTFT of the prefill pool",
        source="67 published results of prefill and decode pools",
    )
    max_nodes_per_replica: float = assumption(
        8,
        low=1,
        high=64,
        unit="machines",
        reason="most machines per replica",
        source="assumed",
    )
