"""What a replica needs to start, to survive restarts and to stop: weights cache, start time, drain, host resources."""

from __future__ import annotations

import math
from collections.abc import Mapping

from app.export.handoff.option import Option, ReplicaGroup

CACHE = "/cache"  # where a container keeps what it downloads
NODE_CACHE = "/var/lib/model-cache"  # folder of a machine that keeps the cache between containers
DOWNLOAD_BYTES_PER_S = 125_000_000  # 1 Gbit/s: the slowest download that the start time allows for
START_TIME_FACTOR = 3.0  # a replica fails if it is not ready after this many times its predicted start time
LEAST_START_S = 100
GIB = 2**30
SPARE_DISK_GB = 100  # container image, compiled kernels and logs
LONGEST_DRAIN_S = 600
ROUTING_DELAY_S = 5  # load balancers forget a stopped replica within this time
HOST_SHARE = 0.8  # share of a machine's processors and memory that its replicas request; the rest is the system's
CPU_PER_ENGINE = 2  # processors in addition to one per accelerator; vLLM's documentation on CPU cores, read 2026-11-26
GIB_PER_PROCESS = 3  # host memory of a server's process; there is one per accelerator and one that answers
# Where engines keep what they download. TGI and text-embeddings-inference set the second one in their images.
CACHE_ENVIRONMENT: Mapping[str, str] = {
    "HF_HOME": f"{CACHE}/huggingface",
    "HUGGINGFACE_HUB_CACHE": f"{CACHE}/huggingface/hub",
}
ENGINE_CACHES: Mapping[str, Mapping[str, str]] = {
    "vllm": {"VLLM_CACHE_ROOT": f"{CACHE}/vllm"},
    "llama.cpp": {"LLAMA_CACHE": f"{CACHE}/llama.cpp"},
    "ollama": {"OLLAMA_MODELS": f"{CACHE}/ollama"},
}


def cache_environment(engine: str) -> dict[str, str]:
    """Environment variables that keep downloads and compiled kernels of an engine in the cache."""
    return {**CACHE_ENVIRONMENT, **ENGINE_CACHES.get(engine, {})}


def weights_bytes(option: Option, group: ReplicaGroup) -> float:
    """Bytes of the weights that a replica loads, at most: data-parallel ranks keep copies of some of them."""
    parts = option.memory.get("per_accelerator_gib") or {}
    return float(parts.get("weights") or 0.0) * group.accelerators * GIB


def download_s(option: Option, group: ReplicaGroup) -> float:
    """Seconds to download the weights at the slowest rate that the files allow for."""
    return weights_bytes(option, group) / DOWNLOAD_BYTES_PER_S


def start_budget_s(option: Option, group: ReplicaGroup) -> int:
    """Seconds until a first start counts as failed: the download, and a multiple of the predicted start time."""
    loading = START_TIME_FACTOR * float(option.performance.get("cold_start_s") or 0.0)
    return max(LEAST_START_S, math.ceil(download_s(option, group) + loading))


def start_note(option: Option, group: ReplicaGroup) -> str:
    """How long a first start may take, as text."""
    size, seconds = weights_bytes(option, group) / 1e9, start_budget_s(option, group)
    return (
        f"A first start may take {seconds:,} s: {size:,.0f} GB of weights at 1 Gbit/s, and three times the predicted "
        "start. Later starts read the cache."
    )


def disk_gb(option: Option, group: ReplicaGroup) -> int:
    """Disk of a machine in GB: the weights, and room for everything else."""
    return math.ceil(weights_bytes(option, group) / 1e9) + SPARE_DISK_GB


def drain_s(option: Option) -> int:
    """Seconds in which a stopped replica finishes its requests: p99 of a request, or 30 s if it is unknown."""
    request_ms = (option.performance.get("e2e_ms") or {}).get("p99")
    longest = 30.0 if request_ms is None else float(request_ms) / 1000
    return min(LONGEST_DRAIN_S, math.ceil(longest) + ROUTING_DELAY_S)


def needed_memory_gib(option: Option, group: ReplicaGroup) -> int:
    """Host memory that each machine needs in GiB: as a run was sized, or for the processes of a server and its weights
    and cache in host memory.
    """
    host = option.memory.get("host_gib") or {}
    sized = (option.performance.get("cluster") or {}).get("host_memory_gib_per_node")
    if sized is not None or not isinstance(host, Mapping):
        return math.ceil(float(str(host if sized is None else sized)))
    stored = (float(host.get("weights") or 0) + float(host.get("cache") or 0)) / group.machines
    return math.ceil(GIB_PER_PROCESS * (1 + group.per_machine) + stored)


def host_requests(option: Option, group: ReplicaGroup) -> dict[str, str]:
    """Processors and memory that a replica requests on each of its machines, as Kubernetes quantities.

    They are the replica's share of the machine if it is known, else what the software needs.
    """
    share = HOST_SHARE * group.per_machine / group.machine_accelerators
    least = CPU_PER_ENGINE + group.per_machine
    cpus = max(1, math.floor(group.machine_vcpus * share)) if group.machine_vcpus else least
    known = group.machine_memory_gib
    memory = math.floor(known * share) if known else needed_memory_gib(option, group)
    return {"cpu": str(cpus), "memory": f"{memory}Gi"}
