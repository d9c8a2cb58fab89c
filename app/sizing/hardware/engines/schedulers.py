"""Default scheduling rules of engines, read in their repositories; `sources` names the file of each field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from app.sizing.hardware.engines.record import Policy, Preemption, Scheduling, StepSize

_READ = "2026-11-22"


def _sources_by_field(**sources: str) -> Mapping[str, str]:
    return MappingProxyType(sources)


# Ranks of data-parallel attention collect prompts only if an option is on; prompts then wait for others. Read
# 2026-11-23: TensorRT-LLM's attention_dp_config.enable_balance is False (timeout_iters 50, batching_wait_iters 10),
# SGLang's enable_prefill_delayer is False (prefill_delayer_max_delay_passes 30); vLLM documents no such option.
_VLLM_STEPS = "vllm/engine/arg_utils.py: get_batch_defaults"
_VLLM_CACHE = "vllm/engine/arg_utils.py: _set_default_chunked_prefill_and_prefix_caching_args"

# A100 keeps the smaller steps despite its large memory; CPUs have their own steps.
VLLM = Scheduling(
    steps_of={
        "nvidia_ampere": (StepSize(0, 2048, 256, 8192),),
        "x86_cpu": (StepSize(0, 2048, 128, 4096),),
        "arm_cpu": (StepSize(0, 2048, 128, 4096),),
    },
    planning_lag_steps=1,
    sources=_sources_by_field(
        steps=_VLLM_STEPS,
        steps_of=_VLLM_STEPS,
        policy="vllm/v1/core/sched/scheduler.py: schedule, decodes and prompts out of one token budget",
        chunked=_VLLM_CACHE,
        preemption="vllm/v1/core/sched/scheduler.py: a preempted request is computed again",
        prefix_cache=_VLLM_CACHE,
        kv_block_tokens="vllm/config/cache.py: block_size on CUDA",
        planning_lag_steps="vllm/config/vllm.py: async_scheduling, on unless unsupported (pull request 27614, 0.14)",
    ),
    read=_READ,
)
_VLLM_0_8 = replace(VLLM, planning_lag_steps=0)
_VLLM_V0 = replace(
    _VLLM_0_8,
    steps=(StepSize(0, 2048, 256),),
    steps_of={},
    policy=Policy.PREFILL_FIRST,
    chunked=False,
    prefix_cache=False,
    sources=_sources_by_field(
        steps="vllm/config.py of 0.6 and 0.7: a step holds max_model_len tokens, at least 2,048",
        policy="vllm/core/scheduler.py of 0.7: prompts go before decodes",
        chunked="vllm/engine/arg_utils.py of 0.7: off, but on for windows above 32k",
        preemption="vllm/core/scheduler.py of 0.7: computed again; swapped for several sequences of a request",
        prefix_cache="vllm/engine/arg_utils.py of 0.7: enable_prefix_caching",
        kv_block_tokens="vllm/engine/arg_utils.py of 0.7: block_size",
    ),
)
# The second engine became the default with 0.8.
VLLM_SINCE = (((0, 0), _VLLM_V0), ((0, 8), _VLLM_0_8), ((0, 14), VLLM))

# At most 2,048 to 4,096 sequences run, depending on the number of longest contexts that the KV cache holds.
_SGLANG_SEQUENCES = 2048
SGLANG = Scheduling(
    steps=(
        StepSize(0, 2048, _SGLANG_SEQUENCES),
        StepSize(35, 4096, _SGLANG_SEQUENCES),
        StepSize(60, 8192, _SGLANG_SEQUENCES),
        StepSize(160, 16384, _SGLANG_SEQUENCES),
    ),
    policy=Policy.PREFILL_FIRST,
    kv_block_tokens=1,
    planning_lag_steps=1,
    output_reserve_share=0.7,
    sources=_sources_by_field(
        steps="python/sglang/srt/server_args.py: _handle_gpu_memory_settings; model_runner: max_num_reqs",
        policy="python/sglang/srt/managers/scheduler.py: get_next_batch_to_run; enable_mixed_chunk is off",
        chunked="python/sglang/srt/managers/schedule_policy.py: PrefillAdder",
        preemption="python/sglang/srt/managers/scheduler.py: retracted requests are computed again",
        prefix_cache="python/sglang/srt/server_args.py: disable_radix_cache is off",
        batch_wait_steps="python/sglang/srt/server_args.py: enable_prefill_delayer, of ranks",
        kv_block_tokens="python/sglang/srt/server_args.py: page_size",
        receive_interval_steps="python/sglang/srt/server_args.py: scheduler_recv_interval; scheduler_recv_skipper.py",
        planning_lag_steps="python/sglang/srt/server_args.py: disable_overlap_schedule is off, since 0.4",
        output_reserve_share="python/sglang/srt/environ.py: SGLANG_INIT_NEW_TOKEN_RATIO; falls to 0.098 in 600 steps",
    ),
    read=_READ,
)
_SGLANG_0_4 = replace(
    SGLANG,
    steps=(
        StepSize(0, 2048, _SGLANG_SEQUENCES),
        StepSize(35, 8192, _SGLANG_SEQUENCES),
        StepSize(160, 16384, _SGLANG_SEQUENCES),
    ),
)
SGLANG_SINCE = (
    ((0, 0), replace(_SGLANG_0_4, planning_lag_steps=0)),
    ((0, 4), _SGLANG_0_4),
    ((0, 5), SGLANG),
)

TENSORRT_LLM = Scheduling(
    steps=(StepSize(0, 8192, 2048),),
    chunked=False,
    preemption=Preemption.NONE,
    kv_block_tokens=32,
    planning_lag_steps=1,
    output_reserve_share=1.0,
    sources=_sources_by_field(
        steps="tensorrt_llm/llmapi/llm_args.py: max_num_tokens, max_batch_size",
        policy="tensorrt_llm/_torch/pyexecutor/scheduler.py: decodes first, then prompts, in one step",
        chunked="tensorrt_llm/llmapi/llm_args.py: enable_chunked_prefill (pull request 9499 was not merged)",
        preemption="tensorrt_llm/llmapi/llm_args.py: capacity_scheduler_policy GUARANTEED_NO_EVICT",
        prefix_cache="tensorrt_llm/llmapi/llm_args.py: enable_block_reuse",
        kv_block_tokens="tensorrt_llm/llmapi/llm_args.py: tokens_per_block",
        batch_wait_steps="tensorrt_llm/llmapi/llm_args.py: batch_wait_timeout_iters; of ranks AttentionDpConfig",
        batch_wait_share="tensorrt_llm/llmapi/llm_args.py: batch_wait_max_tokens_ratio",
        planning_lag_steps="tensorrt_llm/llmapi/llm_args.py: disable_overlap_scheduler is off",
        output_reserve_share="cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp: blocks to completion",
    ),
    read=_READ,
)
# The PyTorch runtime became the default with 1.0.
TENSORRT_LLM_SINCE = (
    ((0, 0), replace(TENSORRT_LLM, planning_lag_steps=0, kv_block_tokens=64)),
    ((1, 0), TENSORRT_LLM),
)

TGI = Scheduling(
    steps=(StepSize(0, 4096, 128),),
    preemption=Preemption.NONE,
    kv_block_tokens=1,
    output_reserve_share=1.0,
    sources=_sources_by_field(
        steps="launcher/src/main.rs: max_batch_prefill_tokens of unknown cards, max_concurrent_requests",
        policy="backends/v3/src/backend.rs: batching_task joins prompts to the running batch",
        chunked="server/text_generation_server/models/globals.py: PREFILL_CHUNKING",
        preemption="backends/v3/src/queue.rs: blocks of the prompt and max_new_tokens",
        prefix_cache="launcher/src/main.rs: resolve_attention",
        kv_block_tokens="server/text_generation_server/models/globals.py: BLOCK_SIZE with flashinfer",
        output_reserve_share="backends/v3/src/queue.rs: blocks of the prompt and max_new_tokens",
    ),
    read=_READ,
)
_TGI_2 = replace(
    TGI,
    policy=Policy.PREFILL_FIRST,
    chunked=False,
    prefix_cache=False,
    kv_block_tokens=16,
    sources=_sources_by_field(
        steps="launcher/src/main.rs of 2.4: max_batch_prefill_tokens, max_concurrent_requests",
        policy="backends/v3/src/backend.rs of 2.4: prompts alone, after 20 steps or when a third of the batch waits",
        chunked="server/text_generation_server/models/globals.py of 2.4: PREFILL_CHUNKING",
        preemption="backends/v3/src/queue.rs of 2.4: blocks of the prompt and max_new_tokens",
        prefix_cache="launcher/src/main.rs: resolve_attention, from 2.3 on",
        kv_block_tokens="server/text_generation_server/models/globals.py of 2.4: BLOCK_SIZE",
        output_reserve_share="backends/v3/src/queue.rs of 2.4: blocks of the prompt and max_new_tokens",
    ),
)
TGI_SINCE = (((0, 0), _TGI_2), ((2, 3), replace(_TGI_2, prefix_cache=True, kv_block_tokens=1)), ((3, 0), TGI))

LMDEPLOY = Scheduling(
    steps=(StepSize(0, 8192, 128),),
    steps_of={
        "nvidia_hopper": (StepSize(0, 8192, 1024),),
        "nvidia_ampere": (StepSize(0, 8192, 128), StepSize(70, 8192, 384)),
        "ascend": (StepSize(0, 8192, 256),),
        "cambricon": (StepSize(0, 8192, 256),),
    },
    prefix_cache=False,
    kv_block_tokens=64,
    planning_lag_steps=1,
    sources=_sources_by_field(
        steps="lmdeploy/messages.py: max_prefill_token_num; lmdeploy/utils.py: get_max_batch_size",
        steps_of="lmdeploy/utils.py: get_max_batch_size, by names of devices",
        policy="src/turbomind/engine/engine.cc: decodes and prompts out of one token budget",
        chunked="src/turbomind/engine/scheduler.cc",
        preemption="src/turbomind/engine/scheduler.cc: evicted blocks are computed again",
        prefix_cache="lmdeploy/messages.py: enable_prefix_caching",
        kv_block_tokens="lmdeploy/messages.py: cache_block_seq_len",
        planning_lag_steps="lmdeploy/messages.py: async_",
    ),
    read=_READ,
)

# A step is one pass of -ub tokens; the server plans -b 2,048 tokens, so that decodes wait for up to four passes.
LLAMA_CPP = Scheduling(
    steps=(StepSize(0, 512, 4),),
    slots=True,
    preemption=Preemption.NONE,
    kv_block_tokens=1,
    output_reserve_share=1.0,
    sources=_sources_by_field(
        steps="common/common.h: n_ubatch; tools/server/server.cpp: n_parallel, 4 where it is not said",
        slots="tools/server/README.md: -np",
        policy="tools/server/server-context.cpp: update_slots, decodes first, then prompts",
        chunked="tools/server/server-context.cpp: update_slots",
        preemption="tools/server/README.md: each slot has its part of -c; context shift is off",
        prefix_cache="tools/server/README.md: --cache-prompt",
        kv_block_tokens="src/llama-kv-cache.cpp: cells of one token",
        output_reserve_share="tools/server/README.md: each slot has its part of -c",
    ),
    read=_READ,
)
OLLAMA = replace(
    LLAMA_CPP,
    steps=(StepSize(0, 512, 1),),
    sources=_sources_by_field(
        **dict(LLAMA_CPP.sources)
        | {"steps": "api/types.go: NumBatch; envconfig/config.go: NumParallel", "slots": "OLLAMA_NUM_PARALLEL"}
    ),
)
# Until 0.9.7, memory decides between 4 and 1.
OLLAMA_SINCE = (((0, 0), replace(OLLAMA, steps=LLAMA_CPP.steps)), ((0, 10), OLLAMA))

# Small runtimes whose source was not read: one sequence per slot, as in llama.cpp.
SLOTS = replace(LLAMA_CPP, sources=_sources_by_field(), read="")

MLC = Scheduling(
    steps=(StepSize(0, 1024, 4),),
    slots=True,
    policy=Policy.PREFILL_FIRST,
    sources=_sources_by_field(
        steps="cpp/serve/config.h: prefill_chunk_size, max_num_sequence",
        slots="cpp/serve/config.h: max_num_sequence",
        policy="cpp/serve/engine_actions/action_commons.cc: new prompts are tried before a decode",
        kv_block_tokens="cpp/serve/config.h: kv_cache_page_size",
    ),
    read=_READ,
)

MLX = Scheduling(
    steps=(StepSize(0, 2048, 32),),
    kv_block_tokens=1,
    sources=_sources_by_field(
        steps="mlx_lm/server.py: prefill-step-size, decode-concurrency",
        policy="mlx_lm/generate.py: a round is one decode and one chunk of up to eight prompts",
        chunked="mlx_lm/generate.py: prefill_step_size",
        prefix_cache="mlx_lm/server.py: prompt-cache-size",
        kv_block_tokens="mlx_lm/models/cache.py: caches of whole sequences",
    ),
    read=_READ,
)

MISTRAL_RS = Scheduling(
    steps=(StepSize(0, 4096, 32),),
    policy=Policy.PREFILL_FIRST,
    kv_block_tokens=32,
    sources=_sources_by_field(
        steps="mistralrs-cli/src/args/mod.rs: max-seqs, max-num-batched-tokens",
        policy="mistralrs-core/src/paged_attention/scheduler.rs",
        chunked="mistralrs-core/src/paged_attention/scheduler.rs",
        preemption="mistralrs-core/src/paged_attention/scheduler.rs",
        prefix_cache="mistralrs-cli/src/args/mod.rs: prefix-cache-n",
        kv_block_tokens="mistralrs-core/src/paged_attention/mod.rs",
    ),
    read=_READ,
)

EXLLAMAV3 = Scheduling(
    steps=(StepSize(0, 2048, 256),),
    preemption=Preemption.NONE,
    kv_block_tokens=256,
    output_reserve_share=1.0,
    sources=_sources_by_field(
        steps="exllamav3/generator/generator.py: max_chunk_size, max_batch_size",
        policy="exllamav3/generator/generator.py: iterate, chunks of prompts, then one decode",
        chunked="exllamav3/generator/generator.py: max_chunk_size",
        preemption="exllamav3/generator/job.py: pages of all of max_new_tokens, unless max_rq_tokens says less",
        output_reserve_share="exllamav3/generator/job.py: max_rq_tokens",
        prefix_cache="exllamav3/generator/pagetable.py",
        kv_block_tokens="exllamav3/constants.py: PAGE_SIZE",
    ),
    read=_READ,
)

EXLLAMAV2 = replace(EXLLAMAV3, sources=_sources_by_field(), read="")  # similar generator; its source was not read

OPENVINO = Scheduling(
    steps=(StepSize(0, 256, 256),),
    prefix_cache=False,
    kv_block_tokens=32,
    sources=_sources_by_field(
        steps="src/cpp/include/openvino/genai/scheduler_config.hpp: max_num_batched_tokens, max_num_seqs",
        policy="src/cpp/include/openvino/genai/scheduler_config.hpp: dynamic_split_fuse",
        chunked="src/cpp/include/openvino/genai/scheduler_config.hpp: dynamic_split_fuse",
        prefix_cache="src/cpp/include/openvino/genai/scheduler_config.hpp: enable_prefix_caching",
        kv_block_tokens="src/cpp/src/continuous_batching: blocks of 32 tokens on processors",
    ),
    read=_READ,
)

# Libraries that return a batch when its last sequence has finished; their source was not read.
STATIC = Scheduling(
    policy=Policy.STATIC, chunked=False, preemption=Preemption.NONE, prefix_cache=False, output_reserve_share=1.0
)
