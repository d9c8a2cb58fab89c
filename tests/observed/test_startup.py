"""Memory figures of start-up lines and out-of-memory errors, as engines write them."""

from __future__ import annotations

import time

import pytest

from app.observed.figures import RunContext, UnreadableText
from app.observed.logs import read_log
from app.sizing.columns import GIB, MIB
from tests.observed.logged import TORCHTITAN

VLLM = """\
INFO 10-11 16:18:14 [gpu_model_runner.py:2000] Model loading took 15.5 GiB and 12.5 seconds
(VllmWorker TP1 pid=9) INFO 10-11 16:18:15 [gpu_model_runner.py:2000] Model loading took 15.25 GiB and 12.6 seconds
INFO 10-11 16:19:14 [gpu_worker.py:298] Available KV cache memory: 8.11 GiB
INFO 10-11 16:19:14 [kv_cache_utils.py:1199] GPU KV cache size: 178,880 tokens
INFO 10-11 16:19:14 [kv_cache_utils.py:1204] Maximum concurrency for 40,960 tokens per request: 4.37x
INFO 10-11 16:19:40 [gpu_model_runner.py:2400] Graph capturing finished in 21 secs, took 0.52 GiB
"""
VLLM_BEFORE = """\
INFO 02-02 model_runner.py:1115] Loading model weights took 14.9888 GB
INFO 02-02 worker.py:266] model weights take 14.99GiB; non_torch_memory takes 0.15GiB; PyTorch activation peak memory \
takes 1.23GiB; the rest of the memory reserved for KV Cache is 54.88GiB.
INFO 02-02 executor_base.py:111] # CUDA blocks: 28098, # CPU blocks: 2048
"""
SGLANG = """\
[2026-01-05 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.09 GB, mem usage=15.00 GB.
[2026-01-05 TP0] KV Cache is allocated. #tokens: 406583, K size: 24.75 GB, V size: 24.75 GB
[2026-01-05 TP0] Capture cuda graph end. Time elapsed: 5.31 s. mem usage=0.50 GB. avail mem=11.6 GB.
[2026-01-05 TP0] max_total_num_tokens=406583, chunked_prefill_size=8192, max_running_requests=2048
"""
TRTLLM = """\
[TensorRT-LLM][INFO] Loaded engine size: 15360 MiB
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 57.94 GiB for max tokens in paged KV cache (474624).
"""
LLAMA_CPP = """\
load_tensors:   CPU_Mapped model buffer size =   512.00 MiB
load_tensors:        CUDA0 model buffer size = 16200.50 MiB
load_tensors:        CUDA1 model buffer size = 12000.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =  2304.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =   256.00 MiB
llama_kv_cache:      CUDA1 KV buffer size =  2000.00 MiB
llama_context:      CUDA0 compute buffer size =   505.00 MiB
llama_context:  CUDA_Host compute buffer size =    72.00 MiB
llama_context: n_ctx         = 32768
llama_context: n_ctx_per_seq = 8192
"""
OLLAMA = """\
time=2026-01-05 level=INFO source=device.go:240 msg="model weights" device=CUDA0 size="4.5 GiB"
time=2026-01-05 level=INFO source=device.go:251 msg="kv cache" device=CUDA0 size="1.0 GiB"
time=2026-01-05 level=INFO source=device.go:262 msg="compute graph" device=CUDA0 size="512.0 MiB"
time=2026-01-05 level=INFO msg=load request="{Parallel:1 BatchSize:512 FlashAttention:true KvSize:8192 KvCacheType:}"
"""
VLLM_TABLE = """\
INFO 12-13 19:54:18 worker.py:243] total_gpu_memory     79.22GiB
INFO 12-13 19:54:18 worker.py:243] gpu_memory_utilization       0.90
INFO 12-13 19:54:18 worker.py:243] model weights take   14.96GiB
INFO 12-13 19:54:18 worker.py:243] non_torch_memory     1.79GiB
INFO 12-13 19:54:18 worker.py:243] PyTorch activation peak memory       1.26GiB
INFO 12-13 19:54:18 worker.py:243] available_kv_cache_memory    53.29GiB
"""
TRTLLM_BLOCKS = """\
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 61.20 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 13770, for reuse: 13770
[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 2048 [window size=65536], tokens per block=32, \
primary blocks=13770, secondary blocks=0
[TRT-LLM] [I] Estimated max memory in KV cache : 53.79 GiB
"""
VLLM_NOW = """\
(EngineCore pid=9) INFO 10-02 [gpu_model_runner.py:5089] Model loading took 14.99 GiB memory and 12.500000 seconds
(EngineCore pid=9) INFO 10-02 [gpu_worker.py:1070] Free memory on device (78.58/79.19 GiB) on startup. Desired GPU \
memory utilization is (0.9, 71.27 GiB). Actual usage is 15.24 GiB for consumed memory (weights + non-torch), 1.89 GiB \
for peak activation, and 0.58 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with \
`--kv-cache-memory=57000000000` (53.09 GiB) to fit into requested memory. Current kv cache memory in use is 54.14 GiB.
(EngineCore pid=9) INFO 10-02 [kv_cache_utils.py:1148] GPU + host KV cache size: 443,520 tokens, Maximum concurrency
"""
SGLANG_HYBRID = """\
[2026-10-02 TP0] Load weight end. elapsed=19.09 s, type=Qwen3NextForCausalLM, avail mem=58.9 GB, mem usage=20.00 GB.
[2026-10-02 TP0] Mamba Cache is allocated. max_mamba_cache_size: 48, conv_state size: 0.25GB, ssm_state size: 3.50GB
[2026-10-02 TP0] Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 700000, KV size: 16.25 GB
[2026-10-02 TP0] Capture decode CUDA graph end. elapsed=5.31 s, mem usage=0.50 GB, avail mem=11.60 GB.
"""
SGLANG_WINDOWED = """\
[2026-01-31 TP1] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 300288, K size: 8.38 GB, V size: 5.59 GB
[2026-01-31 TP1] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 375360, K size: 2.00 GB, V size: 1.34 GB
[2026-01-31 TP1] SWAKVPool mem usage: 17.31 GB, swa size: 300288, full size: 375360
"""
TRTLLM_PROFILE = """\
[TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage profiling: 63.52 GiB
[TRT-LLM] [I] Memory dynamically allocated during inference (inside torch) in memory usage profiling: 0.85 GiB
[TRT-LLM] [I] Memory used outside torch (e.g., NCCL and CUDA graphs) in memory usage profiling: 2.10 GiB
[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 66.47 GiB, device total memory 79.10 GiB,
[TensorRT-LLM][INFO] Allocate 8589934592 bytes for k/v cache.
[TensorRT-LLM][INFO] Using 132608 tokens in paged KV cache.
"""
OLLAMA_BUFFERS = """\
time=2025-07-18 level=INFO source=ggml.go:365 msg="model weights" buffer=CUDA0 size="11.5 GiB"
time=2025-07-18 level=INFO source=ggml.go:365 msg="model weights" buffer=CPU size="680.0 MiB"
time=2025-07-18 level=INFO source=ggml.go:672 msg="compute graph" backend=CUDA0 buffer_type=CUDA0 size="512.0 MiB"
"""
OLLAMA_OFFLOAD = """\
time=2025-02-18 msg=offload library=cuda layers.requested=-1 layers.model=81 layers.offload=81 layers.split=41,40 \
memory.available="[22.0 GiB 22.0 GiB]" memory.required.kv="4.0 GiB" memory.weights.total="20.0 GiB" \
memory.graph.full="512.0 MiB"
time=2025-02-18 msg=offload library=cuda layers.requested=-1 layers.model=81 layers.offload=44 layers.split="" \
memory.available="[22.0 GiB]" memory.required.kv="9.0 GiB" memory.weights.total="80.0 GiB" memory.graph.full="8.0 GiB"
"""
VLLM_ONE_LINE = """\
INFO 11-21 worker.py:232] Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=15.34GiB \
peak_torch_memory=17.06GiB memory_usage_post_profile=15.35GiB non_torch_memory=0.35GiB kv_cache_size=3.81GiB \
gpu_memory_utilization=0.90
"""
VLLM_FIXED = """\
INFO 08-21 [gpu_worker.py:492] Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache as specified by \
kv_cache_memory_bytes config and skipped memory profiling.
"""
LLAMA_CPP_TABLE = """\
load_tensors:        CUDA0 model buffer size = 13169.00 MiB
llama_memory_breakdown_print: | memory breakdown [MiB] | total   free     self   model   context   compute |
llama_memory_breakdown_print: |   - CUDA0 (RTX 4090)   | 24080 = 9436 + (14193 = 13169 +    39 +     985) +       451 |
llama_memory_breakdown_print: |   - Host               |                  1246 =  1200 +     0 +      46              |
"""
LLAMA_CPP_PLAN = """\
llama_params_fit_impl: projected memory use with initial parameters [MiB]:
llama_params_fit_impl:   - CUDA0 (NVIDIA RTX 6000 Ada Generation):  48508 total, 201672 used, 153599 deficit
llama_params_fit_impl: projected to use 410593 MiB of device memory vs. 97017 MiB of free device memory
llama_params_fit_impl: cannot fulfill margin of 1024 MiB on all devices, need to use 316493 MiB less in total
"""
TRTLLM_NOW = """\
[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 91.46 GiB, available KV cache memory when \
calculating max tokens: 41.25 GiB, fraction is set 0.85, kv size is 35136. device total memory 139.81 GiB
[MemUsageChange] Allocated 41.11 GiB for max tokens (524288)
"""
GAUDI = """\
INFO 09-24 habana_worker.py:190] Free device memory: 79.22 GiB, 71.30 GiB usable (gpu_memory_utilization=0.9), \
7.13 GiB reserved for HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.1), 64.17 GiB reserved for KV cache
INFO 09-24 habana_executor.py:85] # HPU blocks: 4107, # CPU blocks: 256
"""
TRTLLM_POOL = """\
[07/24/2025-08:13:02] [TRT-LLM] [I] Rank 0 uses 8.46 GB for model weights.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 833.73 MiB for execution context memory.
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 39.39 GiB, available: 21.89 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 631
"""
STARTED = {
    VLLM_ONE_LINE: {"capacity": 23.58, "overhead": 0.35, "cache": 3.81},
    VLLM_FIXED: {"cache": 4.25},
    LLAMA_CPP_TABLE: {
        "capacity": 24080 / 1024,
        "free": 9436 / 1024,
        "weights": 13169 / 1024,
        "cache": 39 / 1024,
        "activation": 985 / 1024,
    },
    VLLM: {"weights": 15.5, "cache": 8.11, "tokens": 178880, "overhead": 0.52},
    VLLM_BEFORE: {"weights": 14.99, "activation": 1.23, "cache": 54.88, "tokens": 28098 * 16, "overhead": 0.15},
    SGLANG: {"weights": 15.0, "cache": 49.5, "tokens": 406583, "overhead": 0.5},
    TRTLLM: {"weights": 15.0, "cache": 57.94, "tokens": 474624},
    LLAMA_CPP: {"weights": 16200.5 / 1024, "cache": 2.5, "activation": 505 / 1024, "tokens": 32768},
    OLLAMA: {"weights": 4.5, "cache": 1.0, "activation": 0.5, "tokens": 8192},
    VLLM_TABLE: {"weights": 14.96, "cache": 53.29, "activation": 1.26, "overhead": 1.79, "capacity": 79.22},
    VLLM_NOW: {"weights": 14.99, "activation": 1.89, "overhead": 0.58, "cache": 54.14, "tokens": 443520},
    SGLANG_HYBRID: {"weights": 20, "cache": 20, "overhead": 0.5, "tokens": 700000},
    SGLANG_WINDOWED: {"cache": 17.31, "tokens": 375360},
    TRTLLM_PROFILE: {
        "weights": 63.52,
        "activation": 0.85,
        "overhead": 2.1,
        "capacity": 79.1,
        "cache": 8,
        "tokens": 132608,
    },
    OLLAMA_OFFLOAD: {"weights": 10, "cache": 2, "activation": 0.5, "free": 22},
    OLLAMA_OFFLOAD.splitlines()[1].replace("[22.0 GiB]", "[22.5 GiB 512.0 MiB]"): {"free": 0.5},
    "[TM][WARNING] `session_len` truncated to 4928 due to limited KV cache memory": {"tokens": 4928},
    "[TM][INFO] [BlockManager] block_size = 8.000 MB\n[TM][INFO] [BlockManager] max_block_count = 6214": {
        "cache": 6214 * 8 / 1024,
        "tokens": 6214 * 64,
    },
    "INFO text_generation_router: Setting max batch total tokens to 176992": {"tokens": 176992},
    TRTLLM_NOW: {"cache": 41.25, "capacity": 139.81, "tokens": 524288},
    GAUDI: {"cache": 64.17, "tokens": 4107 * 128},
    "INFO text_generation_launcher: KV-cache blocks: 4553, size: 4": {"tokens": 4553 * 4},
    "[WARNING] Generating with a model that requires 61440 MB which is close to the maximum recommended size of 65536 "
    "MB. This can be slow.": {"weights": 60, "capacity": 64},
    OLLAMA_BUFFERS: {"weights": 11.5, "activation": 0.5},
    LLAMA_CPP_PLAN: {"capacity": 48508 / 1024},
    TRTLLM_POOL: {"weights": 8.46, "activation": 833.73 / 1024, "capacity": 39.39, "tokens": 631 * 64},
    TRTLLM_BLOCKS: {"cache": 53.79, "tokens": 13770 * 32, "capacity": 79.1},
}
TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.90 GiB. GPU 0 has a total capacity of 39.39 GiB "
    "of which 2.10 GiB is free. Including non-PyTorch memory, this process has 37.28 GiB memory in use. Of the "
    "allocated memory 36.50 GiB is allocated by PyTorch, and 310.25 MiB is reserved by PyTorch but unallocated."
)
TORCH_BEFORE = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 39.39 GiB total capacity; 36.50 GiB already "
    "allocated; 1.25 GiB free; 37.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory"
)
FAILED = {
    TORCH: {
        "failed_allocation": 14.9,
        "capacity": 39.39,
        "free": 2.1,
        "process": 37.28,
        "allocated": 36.5,
        "unused": 310.25 / 1024,
    },
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.70 GiB. GPU 0 has a total capacty of 6.00 GiB"
    " of which 0 bytes is free. Of the allocated memory 2.93 GiB is allocated by PyTorch, and 2.30 GiB is reserved by "
    "PyTorch but unallocated.": {"failed_allocation": 1.7, "capacity": 6, "free": 0, "allocated": 2.93, "unused": 2.3},
    "Error: llama runner process has terminated: CUDA error: out of memory": {"failed_allocation": 0},
    "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory": {
        "failed_allocation": 0
    },
    **{
        text: {"failed_allocation": 0.0}
        for text in (
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.",
            "ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 2 'out of memory'",
            "[2026-01-01 TP0] Decode out of memory. Try to lower your batch size.",
            "[METAL] Command buffer execution failed: (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
            "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease",
            "RuntimeError: Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
            "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
            "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
            "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (939). Each decode sequence requires",
        )
    },
    "ValueError: The model's max seq len (16000) is larger than the maximum number of tokens that can be stored in KV "
    "cache (2368). Try increasing `gpu_memory_utilization` or": {"failed_allocation": 0, "tokens": 2368},
    "NCCL WARN Cuda failure 'out of memory'\nNCCL WARN Failed to CUDA calloc 6291456 bytes": {
        "failed_allocation": 6 / 1024
    },
    "RuntimeError: Executor creation failed due to insufficient GPU memory.\nTotal GPU memory (GiB): 140.06\n"
    "Free GPU memory before component creation attempt (GiB): 108.86": {"cache": 0, "capacity": 140.06, "free": 108.86},
    "XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 18.54G of 15.75G hbm. Exceeded hbm "
    "capacity by 2.79G.": {"failed_allocation": 2.79, "capacity": 15.75},
    "RESOURCE_EXHAUSTED: Attempting to allocate 2.00G. That was not possible. There are 1.41G free.": {
        "failed_allocation": 2,
        "free": 1.41,
    },
    "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::939524096 (896)MB": {
        "failed_allocation": 0.875
    },
    "ggml_vulkan: Device memory allocation of size 5368709120 failed.": {"failed_allocation": 5},
    TORCH_BEFORE: {"failed_allocation": 2, "capacity": 39.39, "free": 1.25, "process": 37, "allocated": 36.5},
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on device 0: cudaMalloc failed: out of "
    "memory": {"failed_allocation": 20},
    "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.": {
        "failed_allocation": 4
    },
    "RuntimeError: MPS backend out of memory (MPS allocated: 17.97 GB, other allocations: 1.06 GB, max allowed: "
    "18.13 GB). Tried to allocate 320.00 MB on private pool.": {
        "allocated": 17.97,
        "capacity": 18.13,
        "failed_allocation": 0.3125,
    },
    "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity; 55.30 GiB already "
    "allocated; 1.20 GiB free; 57.10 GiB reserved in total by PyTorch)": {
        "failed_allocation": 2,
        "capacity": 60.97,
        "allocated": 55.3,
        "free": 1.2,
        "process": 57.1,
    },
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.62 GiB). Try": {"needed_cache": 16, "cache": 9.62},
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`": {"cache": 0},
    "INFO 07-01 04:24:37 [gpu_worker.py:480] Available KV cache memory: -14.28 GiB": {"cache": 0},
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.": {"cache": 0},
    "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.88.": {"cache": 0},
    "RuntimeError: Executor creation failed due to insufficient GPU memory.": {"cache": 0},
    "ValueError: Free memory on device cuda:0 (70.1/79.19 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.27 GiB). Decrease GPU memory utilization": {
        "free": 70.1,
        "capacity": 79.19,
        "failed_allocation": 71.27,
        "process": 0,
    },
}


def read(text: str, name: str | None = None) -> dict[str, float]:
    """The figures of a text; memory in GiB."""
    found = read_log(text, RunContext(), name).figures
    return {
        "tokens" if f.quantity == "cache_tokens" else f.quantity.removesuffix("_bytes"): f.value
        / (1 if f.group == "service" else GIB)
        for f in found
    }


@pytest.mark.parametrize("text", STARTED)
def test_what_an_engine_prints_at_its_start_is_read_per_accelerator(text: str) -> None:
    assert read(text) == pytest.approx(STARTED[text])
    assert read(text.replace("\n", "\r\n") + "INFO: 127.0.0.1 GET /health\n") == pytest.approx(STARTED[text])


def test_a_line_is_read_by_its_patterns_alone() -> None:
    """A terminal breaks lines, and a bare number is no amount of memory."""
    broken = (
        "ValueError: The model's max seq len (16000) is larger than the maximum number of tokens that can be stored"
    )
    assert read(broken) == {"failed_allocation": 0}
    with pytest.raises(UnreadableText):
        read("There are 5 free slots, kv_cache_size=2, of which 3 is free")


@pytest.mark.parametrize("text", FAILED)
def test_an_out_of_memory_error_is_read(text: str) -> None:
    assert read("Traceback (most recent call last):\n" + text) == pytest.approx(FAILED[text])


def test_a_failure_that_the_engine_recovers_from_is_no_error() -> None:
    failed = "E ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 54262464512\n"
    retried = "W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n"
    assert read(LLAMA_CPP + failed)["failed_allocation"] > 50
    assert read(LLAMA_CPP + failed + retried) == pytest.approx(STARTED[LLAMA_CPP])


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        ("RuntimeError: DefaultCPUAllocator: not enough memory: you tried to allocate 268435456 bytes.", 0.25),
        (
            "[enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: you tried to allocate "
            "2147483648 bytes. Error code 12 (Cannot allocate memory)",
            2,
        ),
        (
            "RuntimeError: unable to mmap 1073741824 bytes from file </models/model-00001.safetensors>: Cannot "
            "allocate memory (12)",
            1,
        ),
        ("Error: model requires more system memory (44.0 GiB) than is available (7.6 GiB)", 44),
        ("E0813 [api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 161617) of binary: /usr/bin/python3.11", 0),
        ("rank2 exitcode: -9 (pid: 36071) traceback : Signal 9 (SIGKILL) received by PID 36071", 0),
        ("[ERROR] [launch.py:320:sigkill_handler] ['python', 'train.py'] exits with return code = -9", 0),
        ("subprocess.CalledProcessError: Command 'torchrun' died with <Signals.SIGKILL: 9>.", 0),
        ("Last State: Terminated  Reason: OOMKilled  Exit Code: 137", 0),
        ("container engine exited with code 137", 0),
        ("kernel: Out of memory: Killed process 4242 (python) total-vm:800000kB", 0),
    ],
)
def test_memory_of_the_host_is_not_that_of_an_accelerator(text: str, gib: float) -> None:
    assert read(text) == {"failed_host": gib}


def test_a_later_table_of_a_device_replaces_an_earlier_one() -> None:
    first = LLAMA_CPP_TABLE.splitlines()[2].replace("13169", "20000").replace("  39", "9000")
    assert read(first + "\n" + LLAMA_CPP_TABLE) == pytest.approx(STARTED[LLAMA_CPP_TABLE])


def test_an_error_after_steps_of_training_is_read_with_the_steps() -> None:
    found = read_log(TORCHTITAN + "\n" + TORCH, RunContext(accelerators=8, tokens_per_step=2.0**20))
    assert {f.group for f in found.figures} == {"training", "memory"}
    with pytest.raises(UnreadableText):
        read_log(TORCHTITAN, RunContext(), "startup")


def test_long_lines_of_numbers_are_searched_quickly() -> None:
    lines = ("1" * 2000 + "\n") * 100 + ("GiB " + "1.1" * 600 + "\n") * 100
    began = time.monotonic()
    with pytest.raises(UnreadableText):
        read_log(lines, RunContext())
    assert time.monotonic() - began < 5


def test_units_are_powers_of_two() -> None:
    assert read_log("Model loading took 512 MB and 1 seconds", RunContext()).figures[0].value == 512 * MIB
