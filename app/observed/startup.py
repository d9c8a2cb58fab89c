"""Memory figures from the start-up lines and out-of-memory errors of engines and trainers.

All figures are of one accelerator, the fullest one. Lines with a device are added up per device; of other lines, which
each rank writes, the largest value counts.

Source, recalled as of 2026-11 except where a date is given: vllm-project/vllm, v1/worker/gpu_worker.py,
v1/core/kv_cache_utils.py and (before 0.9) worker/worker.py; sgl-project/sglang, srt/model_executor/model_runner.py
and srt/mem_cache/memory_pool.py (its GB are 2^30 bytes); NVIDIA/TensorRT-LLM, batch_manager/kvCacheManager.cpp and
_torch/pyexecutor/_util.py; ggml-org/llama.cpp, src/llama-model.cpp, llama-kv-cache.cpp, llama-context.cpp and
ggml-cuda.cu; ollama/ollama, ml/device.go and llm/memory.go; pytorch/pytorch, c10/cuda/CUDACachingAllocator.cpp;
jax-ml/jax, RESOURCE_EXHAUSTED errors of XLA. Read on 2026-11-26: the profile table of vLLM 0.6
(vllm-project/vllm#10511), negative cache sizes and the refusal of a device that is in use (vllm-project/vllm,
v1/worker/utils.py, request_memory). Read on 2026-11-27: vLLM 0.33 (v1/worker/gpu_worker.py, v1/core/kv_cache_utils.py)
and SGLang 0.5.23 (srt/mem_cache/memory_pool.py, swa_memory_pool.py, srt/model_executor); TensorRT-LLM's profile of
memory, Ollama's buffers of mid-2025, the one-line profile of vLLM 0.6 and 0.7, llama.cpp's memory breakdown and the
errors of MPS, XPU, NPU and Vulkan in public issues.
Read on 2026-11-28 in public issues: errors of host memory, killed processes, NCCL's failed allocations, llama.cpp's
plan (params_fit), TensorRT-LLM's report of a failed start, LMDeploy's shortened sessions and blocks, vLLM's refusals of
a context or of a number of sequences; in public sources, tests and logs: TensorRT-LLM's later lines, TGI's blocks, vLLM
on Gaudi, and the errors of Gaudi, MLX, Ollama and Level Zero.
Limits: buffers in host memory are ignored. llama.cpp's plan gives the size of a device only: what it plans first is
often not what it loads. Ollama's plan gives the free memory only where a part of the model stays in host memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.observed.figures import Figure, Reading
from app.observed.lines import LineIndex
from app.sizing.columns import GIB, MIB
from app.work import check_each

UNITS = {"": 1.0, "B": 1.0, "K": 1024.0, "M": float(MIB), "G": float(GIB), "T": 1024.0 * GIB}
AMOUNT = r"(?<![\d.])(\d+(?:\.\d+)?) ?(?=[KMGTBb])([KMGT]?)i?(?:B|bytes)?\b"
BYTES = r"(\d+)()\b"  # a number without a unit
COUNT = r"(?<![\d,])(\d+(?:,\d{3})*)"
DEVICE = r"((?:CUDA|ROCm|Vulkan|SYCL|MUSA|CANN|OpenCL|MTL)\d+|Metal|gpu\d*)(?:_Mapped|_Private)?"
PARTS = {"AMOUNT": AMOUNT, "BYTES": BYTES, "COUNT": COUNT, "DEVICE": DEVICE}  # of the patterns of a MemoryLine

Amount = tuple[str, str, float]  # device ("" if unknown), quantity, and its bytes or tokens


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """A line that gives one quantity of memory. `device`: the first group names a device."""

    quantity: str
    pattern: re.Pattern[str]
    device: bool = False
    counts_tokens: bool = False

    def read(self, line: str) -> Iterator[Amount]:
        """The value of each match."""
        for found in self.pattern.finditer(line):
            groups = list(found.groups())
            device = groups.pop(0) if self.device else ""
            number = float(groups[0].replace(",", ""))
            yield device, self.quantity, number if self.counts_tokens else number * UNITS[groups[1]]


def _bytes(quantity: str, *texts: str, device: bool = False) -> tuple[MemoryLine, ...]:
    counts = quantity == "cache_tokens"
    return tuple(
        MemoryLine(
            quantity,
            re.compile(re.sub("<([A-Z]+)>", lambda name: PARTS[name[1]], text)),
            device,
            counts,
        )
        for text in texts
    )


LINES: tuple[MemoryLine, ...] = (
    *_bytes(
        "weights_bytes",
        r"(?:Model loading|Loading model weights) took <AMOUNT>",
        r"model weights take +<AMOUNT>",
        r"Load weight end.{0,200}mem usage=<AMOUNT>",
        r"Loaded engine size: <AMOUNT>",
        r"[Uu]ses? <AMOUNT> for model weights",
        r"Actual usage is <AMOUNT> for weight\b",
        r"Memory used after loading model weights \(inside torch\) in memory usage profiling: <AMOUNT>",
        r'memory\.weights\.total="<AMOUNT>"',
        r"a model that requires <AMOUNT> which is close",
    ),
    *_bytes(
        "weights_bytes",
        r"<DEVICE> (?:model )?buffer size = +<AMOUNT>",
        r'msg="model weights" (?:device|buffer)=<DEVICE> size="<AMOUNT>"',
        device=True,
    ),
    *_bytes(
        "cache_bytes",
        r"Available KV cache memory: <AMOUNT>",
        r"memory reserved for KV Cache is <AMOUNT>",
        r"reserved <AMOUNT> memory for KV Cache",
        r"\bkv_cache_size=<AMOUNT>",
        r"available_kv_cache_memory +<AMOUNT>",
        r"Estimated max memory in KV cache : <AMOUNT>",
        r"Allocated <AMOUNT> for max tokens",
        r"available KV cache memory when calculating max tokens: <AMOUNT>",
        r"<AMOUNT> reserved for (?:usable )?KV cache",
        r"KV [Cc]ache (?:is )?allocated.{0,120}(?<!\w)KV size: <AMOUNT>",
        r"SWAKVPool mem usage: <AMOUNT>",
        r"kv cache memory in use is <AMOUNT>",
        r"Allocate <AMOUNT> for k/v cache",
        r'memory\.required\.kv="<AMOUNT>"',
    ),
    *_bytes(
        "cache_bytes",
        r"<DEVICE> KV buffer size = +<AMOUNT>",
        r"<DEVICE> (?:RS|recurrent) buffer size = +<AMOUNT>",
        r'msg="kv cache" device=<DEVICE> size="<AMOUNT>"',
        device=True,
    ),
    *_bytes("block_bytes", r"\[BlockManager\] block_size = <AMOUNT>"),
    *_bytes("key_bytes", r"KV Cache is allocated.{0,120}(?<!\w)K size: <AMOUNT>"),
    *_bytes("conv_state_bytes", r"Mamba Cache is allocated.{0,80}conv_state size: <AMOUNT>"),
    *_bytes("recurrent_state_bytes", r"Mamba Cache is allocated.{0,120}ssm_state size: <AMOUNT>"),
    *_bytes("value_bytes", r"KV Cache is allocated.{0,120}(?<!\w)V size: <AMOUNT>"),
    *_bytes(
        "cache_tokens",
        r"[A-Z]PU(?: \+ host)? KV cache size: <COUNT> tokens",
        r"KV [Cc]ache (?:is )?allocated.{0,120}#tokens: <COUNT>",
        r"max_total_num_tokens=<COUNT>",
        r"for max tokens (?:in paged KV cache )?\(<COUNT>\)",
        r"Using <COUNT> tokens in paged KV cache",
        r"that can be stored in KV cache \(<COUNT>\)",
        r"Setting max batch total tokens to <COUNT>",
        r"session_len. truncated to <COUNT> due to limited KV cache memory",
        r"\bn_ctx += <COUNT>",
        r"\bKvSize:<COUNT>",
    ),
    *_bytes(
        "activation_bytes",
        r"activation peak memory (?:takes| ) *<AMOUNT>",
        r"<AMOUNT> for peak activation",
        r"Allocated <AMOUNT> for execution context memory",
        r"Memory dynamically allocated during inference \(inside torch\) in memory usage profiling: <AMOUNT>",
        r'memory\.graph\.full="<AMOUNT>"',
    ),
    *_bytes(
        "activation_bytes",
        r"<DEVICE> compute buffer size = +<AMOUNT>",
        r'msg="compute graph" (?:device|backend)=<DEVICE> (?:buffer_type=\S+ )?size="<AMOUNT>"',
        device=True,
    ),
    *_bytes(
        "graphs_bytes",
        r"Graph capturing finished in .{0,40}took <AMOUNT>",
        r"Capture (?:[\w ]{0,40} )?(?:cuda|CUDA) graph end.{0,80}mem usage=<AMOUNT>",
        r"<AMOUNT> for CUDAGraph memory",
    ),
    *_bytes(
        "other_bytes",
        r"non_torch_memory(?: takes| |=) *<AMOUNT>",
        r"<AMOUNT> for non-torch memory",
        r"Memory used outside torch .{0,60}in memory usage profiling: <AMOUNT>",
    ),
    *_bytes(
        "needed_cache_bytes",
        r"\(?<AMOUNT> KV cache is needed",
    ),
    *_bytes("cache_bytes", r"available KV cache memory \(<AMOUNT>\)"),
    *_bytes(
        "failed_allocation_bytes",
        r"(?<!you )[Tt]ried to allocate <AMOUNT>",  # not PyTorch's allocator of host memory
        r"Device memory allocation of size <BYTES> failed",
        r"while trying to allocate <AMOUNT>",
        r"allocating <AMOUNT> on device \d+: cudaMalloc failed",
        r"failed to allocate \w+ buffer of size <BYTES>",
        r"PT_DEVMEM Allocation failed for size::<BYTES>",
        r"Attempting to allocate <AMOUNT>\. That was not possible",
        r"Exceeded hbm capacity by <AMOUNT>",
        r"Failed to CUDA (?:host )?[cm]alloc (?:async )?<AMOUNT>",
    ),
    *_bytes(
        "failed_host_bytes",
        r"DefaultCPUAllocator: .{0,40}you tried to allocate <AMOUNT>",
        r"unable to mmap <AMOUNT> from file .{0,400}Cannot allocate memory",
        r"requires more system memory \(<AMOUNT>\)",
    ),
    *_bytes(
        "capacity_bytes",
        r"total capac\w+ of <AMOUNT>",
        r"[A-Z]PU \d+; <AMOUNT> total capacity",
        r"device total memory <AMOUNT>",
        r"MPS allocated: .{0,80}max allowed: <AMOUNT>",
        r"the maximum recommended size of <AMOUNT>",
        r"total_gpu_memory(?: \(| +|=)<AMOUNT>",
        r"max tokens in paged kv cache: total: <AMOUNT>",
        r"memory space hbm\. Used [\d.]+\w? of <AMOUNT> hbm",
    ),
    *_bytes(
        "free_bytes", r"of which <AMOUNT> is free", r"already allocated; <AMOUNT> free", r"There are <AMOUNT> free"
    ),
    *_bytes(
        "process_bytes", r"[Pp]rocess (?:\d+ )?has <AMOUNT> memory in use", r"<AMOUNT> reserved in total by PyTorch"
    ),
    *_bytes(
        "allocated_bytes",
        r"<AMOUNT> is allocated by PyTorch",
        r"total capacity; <AMOUNT> already allocated",
        r"MPS allocated: <AMOUNT>",
    ),
    *_bytes("unused_bytes", r"<AMOUNT> is reserved by PyTorch but unallocated"),
)
BLOCKS = re.compile(r"# (GPU|CUDA|cuda|HPU|hpu) blocks: (\d+)")
BLOCK_TOKENS = {"GPU": 16, "CUDA": 16, "HPU": 128}  # tokens of a cache block, where a log counts blocks only
POOL_BLOCKS = re.compile(r"Number of blocks in KV cache primary pool: (\d+)")
POOL_BLOCK_TOKENS = 64  # TensorRT-LLM: tokens_per_block of the C++ runtime
MANAGED_BLOCKS = re.compile(r"\[BlockManager\] max_block_count = (\d+)")
MANAGED_BLOCK_TOKENS = 64  # TurboMind: cache_block_seq_len
# TensorRT-LLM's report of a failed start, in GiB.
EXECUTOR_MEMORY = re.compile(r"(Total|Free) GPU memory (?:before component creation attempt )?\(GiB\): ([\d.]+)")
EXECUTOR_QUANTITIES = {"Total": "capacity_bytes", "Free": "free_bytes"}
# llama.cpp's plan of a device, in MiB, before it shortens the context or moves layers to the host.
PLANNED = re.compile(rf"params_fit(?:_impl)?: +- {DEVICE} \(.{{0,80}}: +(\d+) total, +\d+ used")
SIZED_BLOCKS = re.compile(r"tokens per block=(\d+), primary blocks=(\d+)|KV-cache blocks: (\d+), size: (\d+)")
NO_CACHE = re.compile(
    r"No available memory for the cache blocks|Available KV cache memory: -\d|"
    r"Not enough memory\. Please try to increase --mem-fraction-static|"
    r"Loaded weights leave no GPU memory for the KV cache|"
    r"Executor creation failed due to insufficient GPU memory"
)
# Errors that do not state how many bytes they lacked; vLLM's refusals of a context or of a number of sequences are two.
UNSTATED_FAILURE = re.compile(
    r"max seq len \(\d+\) is larger than the maximum number of tokens that can be stored|"
    r"max_num_seqs \(\d+\) exceeds available Mamba cache blocks|"
    r"(?:CUDA|ROCm|HIP|MUSA|SYCL) (?:driver |runtime )?error.{0,120}out of memory|"
    r"[a-z]+Malloc(?:Async)? failed: out of memory|"
    r"(?:CUDA_ERROR|hipError|ErrorOutOf|CUBLAS_STATUS|cudaError)_?(?:OUT_OF_MEMORY|OutOfMemory|DeviceMemory|ALLOC_FAILED|"
    r"MemoryAllocation)|"
    r"Error\W{1,4}(?:CUDA|HIP|XPU|NPU|MPS backend) out of memory|Cuda failure (?:\d+ )?'out of memory'|"
    r"(?:Prefill|Decode) out of memory(?! happened)|CallbackErrorOutOfMemory|"
    r"Not enough memory to handle \d+ prefill tokens|ERROR_OUT_OF_DEVICE_MEMORY|"
    r"failed to allocate (?:buffer for kv cache|compute pp buffers)|"
    r"unable to allocate (?:CUDA|ROCm|Vulkan|SYCL)\d* buffer"
)
# Processes that the system killed, and errors of host memory without a size.
KILLED = re.compile(
    r"exit ?code\W{1,4}-9\b|exits with return code = -9\b|[Ss]ignals?\W{1,3}(?:9 \(SIGKILL\)|SIGKILL\W{1,3}9\b)|"
    r"(?:exited with|exit|status|exit ?code)\W{1,4}(?:code |status )?137\b|OOMKilled|[Oo]ut of memory: Killed process|"
    r"invoked oom-killer|killed due to memory pressure|killed by the OOM killer"
)
RECOVERED = re.compile("retrying without pipeline parallelism")  # llama.cpp goes on with smaller buffers
# A device of which other processes use so much that an engine refuses to start: free, whole and requested GiB.
IN_USE = re.compile(
    r"Free memory on device .{0,20}?\(([\d.]+)/([\d.]+) GiB\) on startup is less than "
    r"(?:desired|the engine's budget) .{0,80}?, ([\d.]+) GiB\)"
)
# Ollama's figures of a whole model: its layers, those on devices, and the memory of each device.
OFFLOAD = re.compile(r'layers\.model=(\d+) layers\.offload=(\d+) .{0,120}memory\.available="\[([^]]{0,999})\]"')
# llama.cpp's table of a device, in MiB: total = free + (self = model + context + compute) + unaccounted.
BREAKDOWN = re.compile(
    rf"\| +- {DEVICE} .{{0,80}}\| +(\d+) = +(\d+) \+ \( *\d+ = +(\d+) \+ +(\d+) \+ +(\d+)\) \+ +-?\d+ \|"
)
BREAKDOWN_QUANTITIES = ("capacity_bytes", "free_bytes", "weights_bytes", "cache_bytes", "activation_bytes")
TABLES = (OFFLOAD, BREAKDOWN, RECOVERED)  # lines that change what other lines say
IN_USE_QUANTITIES = ("free_bytes", "capacity_bytes", "failed_allocation_bytes")
# Quantities of the group `memory`; the others are combined or counted in tokens.
MEMORY_QUANTITIES = (
    "weights_bytes",
    "cache_bytes",
    "activation_bytes",
    "needed_cache_bytes",
    "failed_allocation_bytes",
    "capacity_bytes",
    "free_bytes",
    "process_bytes",
    "allocated_bytes",
    "unused_bytes",
    "failed_host_bytes",
)


UNSIZED: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Iterable[tuple[str, float]]]], ...] = (
    (BLOCKS, lambda blocks: [("cache_tokens", float(blocks[2]) * BLOCK_TOKENS[blocks[1].upper()])]),
    (SIZED_BLOCKS, lambda blocks: [("cache_tokens", float(blocks[1] or blocks[3]) * float(blocks[2] or blocks[4]))]),
    (POOL_BLOCKS, lambda blocks: [("pool_tokens", float(blocks[1]) * POOL_BLOCK_TOKENS)]),
    (MANAGED_BLOCKS, lambda blocks: [("blocks", float(blocks[1]))]),
    (EXECUTOR_MEMORY, lambda memory: [(EXECUTOR_QUANTITIES[memory[1]], float(memory[2]) * GIB)]),
    (PLANNED, lambda planned: [("capacity_bytes", float(planned[2]) * MIB)]),
    (KILLED, lambda _: [("failed_host_bytes", 0.0)]),
    (NO_CACHE, lambda _: [("cache_bytes", 0.0)]),
    (UNSTATED_FAILURE, lambda _: [("failed_allocation_bytes", 0.0)]),
    (
        IN_USE,  # the engine itself has not loaded anything
        lambda gib: [
            ("process_bytes", 0.0),
            *((q, float(x) * GIB) for q, x in zip(IN_USE_QUANTITIES, gib.groups(), strict=True)),
        ],
    ),
)


def read_startup(index: LineIndex) -> tuple[Reading, list[str]]:
    """Memory figures of a log, and the lines that have none."""
    found: dict[int, list[Amount]] = {}
    for each in LINES:
        for number in index.matches(each.pattern):
            found.setdefault(number, []).extend(each.read(index.lines[number]))
    for pattern, figures in UNSIZED:
        for number, match in index.matches(pattern).items():
            found.setdefault(number, []).extend(("", quantity, value) for quantity, value in figures(match))
    seen: dict[str, dict[str, list[float]]] = {}
    read = set[int]()
    for number in check_each(sorted({*found, *(n for pattern in TABLES for n in index.matches(pattern))})):
        if _add_line(index, number, found.get(number, []), seen):
            read.add(number)
    others = [line for number, line in enumerate(index.lines) if number not in read]
    return Reading(tuple(_figures(_largest(seen)))), others


def _add_line(index: LineIndex, number: int, found: list[Amount], seen: dict[str, dict[str, list[float]]]) -> bool:
    """Adds the values of one line, of which `found` are those of the usual patterns; False if it has none."""
    if (offload := index.matches(OFFLOAD).get(number)) is not None:
        devices = max(1, offload[3].count("iB"))
        if offload[1] == offload[2]:
            found = [(d, q, x if q == "activation_bytes" else x / devices) for d, q, x in found]
        else:  # a part of each is in host memory
            free = [float(amount) * UNITS[unit] for amount, unit in re.findall(AMOUNT, offload[3])]
            found = [("", "free_bytes", min(free))] if free else []
    if (row := index.matches(BREAKDOWN).get(number)) is not None:  # a device of its own: its buffers have lines too
        mib = map(float, row.groups()[1:])
        seen.pop(table := f"{row[1]} table", None)  # a later table of the same device replaces the earlier one
        found = [*found, *((table, q, x * MIB) for q, x in zip(BREAKDOWN_QUANTITIES, mib, strict=True))]
    if number in index.matches(RECOVERED):
        seen.get("", {}).pop("failed_allocation_bytes", None)
    for device, quantity, value in found:
        seen.setdefault(device, {}).setdefault(quantity, []).append(value)
    return bool(found)


def _largest(seen: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """One value per quantity: the sums of the fullest device, and the largest value of lines without a device."""
    named = {device: {name: sum(values) for name, values in of.items()} for device, of in seen.items() if device}
    fullest = max(named.values(), key=lambda of: sum(of.values()) - of.get("capacity_bytes", 0.0), default={})
    return {**{name: max(values) for name, values in seen.get("", {}).items()}, **fullest}


def _figures(values: Mapping[str, float]) -> Iterator[Figure]:
    combined = dict(values)
    if "key_bytes" in values and "value_bytes" in values:
        combined.setdefault("cache_bytes", values["key_bytes"] + values["value_bytes"])
    if "block_bytes" in values and "blocks" in values:
        combined["cache_bytes"] = values["block_bytes"] * values["blocks"]
        combined.setdefault("cache_tokens", values["blocks"] * MANAGED_BLOCK_TOKENS)
    states = [values[name] for name in ("conv_state_bytes", "recurrent_state_bytes") if name in values]
    if states:
        combined["cache_bytes"] = combined.get("cache_bytes", 0.0) + sum(states)
    overhead = [values[name] for name in ("graphs_bytes", "other_bytes") if name in values]
    source = "start-up lines of the log"
    failed = "needed_cache_bytes" in values or "failed_allocation_bytes" in values or values.get("cache_bytes") == 0
    for name in MEMORY_QUANTITIES:
        if name in combined:
            yield Figure("memory", name, combined[name], "out-of-memory error in the log" if failed else source)
    if overhead:
        yield Figure("memory", "overhead_bytes", sum(overhead), source)
    tokens = combined.get("cache_tokens", values.get("pool_tokens"))  # the size of a pool's blocks is assumed
    if tokens is not None:
        yield Figure("service", "cache_tokens", tokens, source)
