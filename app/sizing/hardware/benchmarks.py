"""Benchmark commands for each engine and framework, with the flags of the software.

A command is a template with places. A part in brackets is left out if one of its places has no value. Flags are
those of the releases of August 2026. A file that only the user has is a `$VARIABLE` or a path in the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter

Places = Mapping[str, object]
BRACKETS = r"\[([^\[\]]*)\]"
READY = " & until curl -sfo /dev/null localhost:{port}/{path}; do sleep 5; done; "
STOP = "; kill $!"


@dataclass(frozen=True, slots=True)
class Server:
    """How to start an engine: the command, its port, and the path that answers once the server is ready."""

    command: str
    port: int = 8000
    path: str = "health"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: the load command and the server it needs, if any.

    `converts` and `caches` map the weight and cache formats that the engine creates itself from a published
    checkpoint to its own names. `adapts` is true if the command can train adapters. `counts` says how to compute the
    predicted rate from the report, if the report does not print it.
    """

    load: str
    server: Server | None = None
    converts: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, str] = field(default_factory=dict)
    adapts: bool = True
    counts: str = ""

    @property
    def command(self) -> str:
        """The whole command in one line: start the server, wait until it is ready, apply the load, stop the server."""
        if self.server is None:
            return self.load
        started = self.server
        return started.command + READY.format(port=started.port, path=started.path) + self.load + STOP

    def fill_places(self, places: Places) -> str:
        """The whole command with its places filled."""
        return fill_template(self.command, places)


def fill_template(command: str, places: Places) -> str:
    """A command template with its places filled; values are quoted for the shell.

    Check:
        >>> fill_template("serve {model}[ --tp {tensor}][ --kv {cache}]", {"model": "a b", "tensor": 2})
        "serve 'a b' --tp 2"
    """
    known = {name: quote_value(value) for name, value in places.items() if value is not None}
    pieces = re.sub(BRACKETS, lambda found: found[1] if place_names(found[1]) <= known.keys() else "", command)
    return pieces.format_map(known)


def place_names(text: str) -> set[str]:
    """Names of the places in a template."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def quote_value(value: object) -> str:
    """A value quoted for the shell, fractions with three digits; an empty value keeps its part of the command."""
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return shlex.quote(text) if text else ""


def openai_load(*, url: str = "", model: str = "{model}", stops: bool = False) -> str:
    """vLLM's load generator against a server with the OpenAI completions API.

    Set `stops` if the server cannot ignore an end-of-text token.
    """
    return (
        f"vllm bench serve --backend openai{url} --model {model} --dataset-name random "
        "--random-input-len {input}[ --random-prefix-len {prefix}] --random-output-len {output}"
        "[ --random-range-ratio {spread}][ --request-rate {rate}][ --burstiness {burstiness}]"
        "[ --max-concurrency {concurrency}] --num-prompts {prompts}"
        f"{'' if stops else ' --ignore-eos'} --percentile-metrics ttft,tpot,e2el --metric-percentiles 50,{{percentile}}"
    )


def embedding_load(port: int, endpoint: str) -> str:
    """vLLM's load generator against an embeddings server."""
    return (
        f"vllm bench serve --backend openai-embeddings --base-url http://localhost:{port} --endpoint {endpoint} "
        "--model {model} --dataset-name random --random-input-len {prompt}[ --max-concurrency {concurrency}] "
        "--num-prompts {prompts}"
    )


def url_of(port: int) -> str:
    return f" --base-url http://localhost:{port}"


# Serving engines. Sources: vllm/benchmarks/serve.py, sglang/benchmark/args.py, tensorrt_llm/commands/serve.py and
# serve/scripts/benchmark_serving.py, tools/llm_bench of openvino.genai, launcher/src/main.rs of TGI, lmdeploy/cli,
# mlx_lm/benchmark.py, examples/text-generation of optimum-habana, maxtext/inference of MaxText, reference/cli/serve.md
# of mistral.rs.
RUNNING = Benchmark(openai_load(url=' --base-url "$BASE_URL"'))  # any running server
VLLM = Benchmark(
    openai_load(),
    Server(
        "vllm serve {model} --tensor-parallel-size {tensor}[ --pipeline-parallel-size {pipeline}]"
        "[ --data-parallel-size {data}][ --decode-context-parallel-size {contexts}]"
        "[ --enable-expert-parallel{with_experts}]"
        "[ --data-parallel-size-local {ranks_here} --data-parallel-start-rank $((NODE_RANK*{ranks_here}))"
        " --data-parallel-address $MASTER_ADDR]"
        "[ --distributed-executor-backend mp --nnodes {stage_machines} --node-rank $NODE_RANK"
        " --master-addr $MASTER_ADDR]"
        "[ --quantization {conversion}][ --kv-cache-dtype {cache}] --max-model-len {context}"
        "[ --max-num-seqs {sequences}][ --max-num-batched-tokens {batched}][ --gpu-memory-utilization {fraction}]"
        "[ --enable-lora --max-loras {adapters} --max-lora-rank {adapter_rank}]"
    ),
    converts={"fp8": "fp8", "nf4": "bitsandbytes"},
    caches={"fp8": "fp8"},
)
NEURON = Benchmark(
    openai_load(),
    Server("vllm serve {model} --tensor-parallel-size {tensor} --max-model-len {context}[ --max-num-seqs {sequences}]"),
)
SGLANG = Benchmark(
    "python -m sglang.bench_serving --backend sglang --port 30000 --model {model} --dataset-name random "
    "--random-input-len {prompt} --random-output-len {output} --random-range-ratio 1[ --request-rate {rate}]"
    "[ --max-concurrency {concurrency}] --num-prompts {prompts}",
    Server(
        "python -m sglang.launch_server --model-path {model} --tp-size {stage}[ --pp-size {pipeline}]"
        "[ --dp-size {data} --enable-dp-attention --moe-a2a-backend deepep][ --dcp-size {contexts}]"
        "[ --ep-size {experts}][ --nnodes {machines} --node-rank $NODE_RANK --dist-init-addr $MASTER_ADDR:5000]"
        "[ --quantization {conversion}][ --kv-cache-dtype {cache}] --context-length {context}"
        "[ --max-running-requests {all_sequences}][ --chunked-prefill-size {all_batched}]"
        "[ --mem-fraction-static {fraction}]"
        "[ --enable-lora --max-loras-per-batch {adapters} --max-lora-rank {adapter_rank} --lora-target-modules all]"
        " --port 30000",
        port=30000,
    ),
    converts={"fp8": "fp8"},
    caches={"fp8": "fp8_e4m3"},
)
# The same load from generators that work with any engine: aiperf/config/flags of 0.13, guidellm/schemas of 0.8.1.
AIPERF = Benchmark(
    "aiperf profile --model {model} --tokenizer {tokenizer} --url {url} --endpoint-type completions --streaming "
    "--isl {input} --osl {output}[ --isl-stddev {input_deviation} --osl-stddev {output_deviation}]"
    "[ --prefix-prompt-length {prefix} --num-prefix-prompts 1][ --request-rate {rate}][ --concurrency {concurrency}] "
    "--request-count {prompts} --extra-inputs ignore_eos:true"
)
GUIDELLM = Benchmark(
    "guidellm run --backend kind=openai_http,target={url},model={model} "
    "--data kind=synthetic_text,prompt_tokens={prompt},output_tokens={output}"
    "[,prompt_tokens_stdev={input_deviation},output_tokens_stdev={output_deviation}]"
    "[ --profile kind=poisson,rate={rate}][ --profile kind=concurrent,streams={concurrency}] "
    "--constraint kind=max_requests,count={prompts}"
)
TENSORRT_LLM = Benchmark(
    "python -m tensorrt_llm.serve.scripts.benchmark_serving --backend openai --model {model} --dataset-name random "
    "--random-ids --random-input-len {input}[ --random-prefix-len {prefix}] --random-output-len {output}"
    "[ --random-range-ratio {spread}][ --request-rate {rate}][ --max-concurrency {concurrency}] "
    "--num-prompts {prompts} --ignore-eos --percentile-metrics ttft,tpot,e2el --metric-percentiles 50,{percentile}",
    Server(
        "[echo enable_attention_dp: true > {ranks_config}; ]"
        "[srun -N {machines} -n {accelerators} --mpi=pmix trtllm-llmapi-launch ]trtllm-serve {model} "
        "--tp_size {stage}[ --pp_size {pipeline}][ --ep_size {experts}] --max_seq_len {context}"
        "[ --max_batch_size {sequences}][ --max_num_tokens {batched}][ --kv_cache_free_gpu_memory_fraction {fraction}]"
        "[ --config {config}]"
    ),
    caches={"fp8": "fp8"},  # set in the configuration file
)
LMDEPLOY = Benchmark(
    openai_load(url=url_of(23333)),
    Server(
        "lmdeploy serve api_server {model} --tp {tensor} --session-len {context}[ --max-batch-size {sequences}]"
        "[ --cache-max-entry-count {fraction}][ --quant-policy {cache}]",
        port=23333,
    ),
    caches={"int8": "8"},
)
TGI = Benchmark(
    openai_load(url=url_of(8080), stops=True),
    Server(
        "text-generation-launcher --model-id {model} --num-shard {tensor} --port 8080 --max-total-tokens {context}"
        "[ --max-batch-size {sequences}][ --quantize {conversion}][ --kv-cache-dtype {cache}]",
        port=8080,
    ),
    converts={"fp8": "fp8", "nf4": "bitsandbytes-nf4"},
    caches={"fp8": "fp8_e4m3fn"},
)
LLAMA_SERVER = Server(
    "llama-server -m {stem}.gguf -ngl {device_layers}[ --n-cpu-moe {host_expert_layers}] -c {cache_tokens} "
    "--kv-unified[ -np {sequences}][ -b {batched}][ -ctk {cache} -ctv {cache}]",
    port=8080,
)
LLAMA_CPP = Benchmark(
    "llama-batched-bench -m {stem}.gguf -ngl {device_layers}[ --n-cpu-moe {host_expert_layers}] -c {held}"
    "[ -ctk {cache} -ctv {cache}] -npp {prompt} -ntg {output} -npl {batch}",
    caches={"gguf-q8_0": "q8_0", "gguf-q4_0": "q4_0", "int8": "q8_0"},
    counts="B x TG / T from its table",
)
OLLAMA = Benchmark(
    "echo FROM {stem}.gguf > Modelfile && ollama create measured -f Modelfile && "
    + openai_load(url=url_of(11434), model="measured --tokenizer {tokenizer}", stops=True),
    Server("OLLAMA_NUM_PARALLEL={batch} OLLAMA_CONTEXT_LENGTH={context} ollama serve", port=11434, path=""),
)
MLX_SERVER = Server("mlx_lm.server --model {model} --port 8080[ --decode-concurrency {sequences}]", port=8080)
MLX = Benchmark(
    "mlx_lm.benchmark --model {model} --prompt-tokens {prompt} --generation-tokens {output} --batch-size {batch} "
    "--num-trials 5",
    counts="generated tokens over prompt and generation time",
)
OPENVINO = Benchmark(
    "optimum-cli export openvino --model {model}[ --weight-format {conversion}] ./measured && python benchmark.py "
    "-m ./measured -d $DEVICE -n 5 -bs {batch} -ic {output} -p \"$(yes hi | head -n {prompt} | tr '\\n' ' ')\"",
    converts={"int8": "int8", "int4-gptq": "int4", "fp16": "fp16"},
)
OPTIMUM_HABANA = Benchmark(
    "PT_HPU_LAZY_MODE=1 python[ ../gaudi_spawn.py --use_deepspeed --world_size {ranks}] run_generation.py "
    "--model_name_or_path {model} --bf16 --use_hpu_graphs --use_kv_cache --batch_size {batch} "
    "--max_input_tokens {prompt} --max_new_tokens {output} --ignore_eos --warmup 3 --n_iterations 5"
)
JETSTREAM = Benchmark(
    "python3 -m maxtext.inference.inference_microbenchmark src/maxtext/configs/base.yml model_name=$MODEL_NAME"
    "[ quantization={conversion}][ quantize_kvcache={cache}] ici_fsdp_parallelism=1 "
    "ici_autoregressive_parallelism=1 ici_tensor_parallelism={tensor} per_device_batch_size={batch_each} "
    "max_prefill_predict_length={prompt} max_target_length={context} weight_dtype=bfloat16 scan_layers=false",
    converts={"int8": "int8"},
    caches={"int8": "True"},
)
TRANSFORMERS = Benchmark(
    "python -c 'import sys, time, torch; from transformers import AutoModelForCausalLM as A; _, m, b, i, o = sys.argv; "
    'd = A.from_pretrained(m, dtype="auto", device_map="auto"); '
    "x = torch.randint(9, 999, (int(b), int(i)), device=d.device); n = int(o); "
    "g = lambda: d.generate(x, max_new_tokens=n, min_new_tokens=n); g(); t = time.time(); g(); "
    'print(int(b) * n / (time.time() - t), "output tokens/s")\' {model} {batch} {prompt} {output}'
)
MISTRAL_RS = Benchmark(
    openai_load(url=url_of(1234), stops=True),
    Server("mistralrs serve -m {model} --port 1234", port=1234),
)
TENSORRT = Benchmark(
    "trtexec --onnx={stem}-batch{batch}.onnx --useCudaGraph --noDataTransfers --duration={seconds}",
    counts="queries/s x batch / passes",
)
# Single-pass models, with any engine, by kind of model.
EMBEDDINGS = Benchmark(
    "python -c 'import sys, time; from sentence_transformers import SentenceTransformer as S; "
    '_, m, b, i, n = sys.argv; e = S(m); t = ("hi " * int(i),) * int(n); f = lambda: e.encode(t, batch_size=int(b)); '
    'f(); s = time.time(); f(); print(int(n) / (time.time() - s), "requests/s")\' {model} {batch} {prompt} {prompts}'
)
TEXT_EMBEDDINGS_INFERENCE = Benchmark(
    embedding_load(8080, "/v1/embeddings"), Server("text-embeddings-router --model-id {model} --port 8080", port=8080)
)
INFINITY = Benchmark(
    embedding_load(7997, "/embeddings"), Server("infinity_emb v2 --model-id {model} --port 7997", port=7997)
)
PICTURES = Benchmark(
    "python -c 'import sys, time, torch; from diffusers import DiffusionPipeline as D; _, m, b, n, k = sys.argv; "
    'p = D.from_pretrained(m, torch_dtype=torch.bfloat16).to("cuda"); '
    'f = lambda: p("a photo of a house", num_images_per_prompt=int(b), num_inference_steps=int(n)); '
    "f(); t = time.time(); list(f() for _ in range(int(k))); "
    'print(int(b) * int(k) / (time.time() - t), "samples/s")\' {model} {batch} {passes} {rounds}'
)
PASSES = Benchmark(
    "python -c 'import sys, time, torch; from transformers import pipeline as P; _, m, b, n, f = sys.argv; "
    "p = P(model=m, dtype=torch.bfloat16, device=0, batch_size=int(b)); x = (f,) * int(n); "
    'p(x); t = time.time(); p(x); print(int(n) / (time.time() - t), "samples/s")\' '
    "{model} {batch} {prompts} $SAMPLE_FILE"
)

# Training frameworks: a number of steps with the layout. Sources: Megatron-LM's examples/llama, torchtitan/config,
# maxtext/configs/base.yml, trl/accelerate_configs and trl sft, axolotl/cli, unsloth-cli.py, mlx_lm/lora.py,
# examples/language-modeling of optimum-habana, examples of transformers and diffusers, NxD Training, NeMo 2's CLI,
# READMEs of torchtune and of LLaMA-Factory's examples.
EVERYWHERE = "--nproc-per-node {per_machine}[ --nnodes {machines} --node-rank $NODE_RANK --master-addr $MASTER_ADDR]"
TRAINER = (
    "[ --num_machines {machines} --machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR]"
    " --num_processes {accelerators}"
)
SFT = (
    f"trl sft --accelerate_config {{sharding}}{TRAINER} --model_name_or_path {{model}} "
    "[--dataset_name trl-lib/Capybara{mock} ][--dataset_name $DATASET{own_data} ]"
    "--packing --max_length {length} --per_device_train_batch_size {micro_batch} "
    "--gradient_accumulation_steps {accumulated} --max_steps {steps} --logging_steps 10[ --{precision}]"
    "[ --gradient_checkpointing {recompute}][ --use_peft --lora_r {rank}][ --load_in_4bit{in_4_bits}]"
    " --output_dir ./measured"
)
MEGATRON = Benchmark(
    f"torchrun {EVERYWHERE} pretrain_gpt.py [--mock-data --tokenizer-type NullTokenizer --vocab-size {{mock_words}} ]"
    "[$DATA_FLAGS $OPTIMIZER_FLAGS{own_data} ]--num-layers {layers} --hidden-size {hidden} --ffn-hidden-size {width} "
    "--num-attention-heads {heads} "
    "--group-query-attention --num-query-groups {kv_heads} --swiglu --normalization RMSNorm "
    "--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights "
    "[--num-experts {expert_count} --moe-router-topk {expert_choice} --expert-model-parallel-size {experts} ]"
    "--seq-length {length} --max-position-embeddings {length} --micro-batch-size {micro_batch} "
    "--global-batch-size {global_batch} --train-iters {steps} [--lr 1e-4 --eval-iters 0{mock} ]"
    "--bf16[ --fp8-format hybrid{in_fp8}] --tensor-model-parallel-size {tensor}[ --sequence-parallel{with_tensor}]"
    "[ --pipeline-model-parallel-size {pipeline}][ --num-layers-per-virtual-pipeline-stage {chunk}]"
    "[ --context-parallel-size {contexts}]"
    "[ --recompute-granularity {granularity}][ --recompute-method uniform --recompute-num-layers {recomputed}]"
    " --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --log-interval 1 --log-throughput",
    adapts=False,
)
NEMO = Benchmark(
    "nemo llm {task} --factory $RECIPE trainer.max_steps={steps} trainer.num_nodes={machine_count} "
    "trainer.devices={per_machine} data.seq_length={length} data.micro_batch_size={micro_batch} "
    "data.global_batch_size={global_batch} trainer.strategy.tensor_model_parallel_size={tensor}"
    "[ trainer.strategy.pipeline_model_parallel_size={pipeline}][ trainer.strategy.context_parallel_size={contexts}]"
)
TORCHTITAN = Benchmark(
    f"torchrun {EVERYWHERE} -m torchtitan.train --module $MODULE --config $CONFIG --training.steps {{steps}} "
    "--training.max_context_length {length} --training.num_tokens_per_microbatch_per_dp_rank {micro_batch_tokens} "
    "--training.num_tokens_per_train_step {global_batch_tokens} --parallelism.tensor_parallel_degree {tensor} "
    "--parallelism.data_parallel_shard_degree {shards} --parallelism.data_parallel_replicate_degree {copies}"
    "[ --parallelism.pipeline_parallel_degree {pipeline}][ --parallelism.context_parallel_degree {contexts}]"
    "[ --parallelism.expert_parallel_degree {experts}]"
)
MAXTEXT = Benchmark(
    "python3 -m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml "
    "[run_name=measured base_output_directory=./measured dataset_type=synthetic enable_checkpointing=false{mock} ]"
    "[run_name=$RUN_NAME base_output_directory=$OUTPUT_DIRECTORY $DATA_FLAGS{own_data} ]model_name=$MODEL_NAME "
    "steps={steps} max_target_length={length} per_device_batch_size={batch_each} "
    "gradient_accumulation_steps={accumulated} ici_tensor_parallelism={tensor}[ ici_pipeline_parallelism={pipeline}]"
    "[ ici_context_parallelism={contexts}][ ici_expert_parallelism={experts}][ quantization=fp8{in_fp8}]"
)
TRL = Benchmark(SFT)
TORCHTUNE = Benchmark(
    "tune run[ --nnodes {machines} --node_rank $NODE_RANK --master_addr $MASTER_ADDR] --nproc_per_node {per_machine} "
    "$RECIPE --config $CONFIG batch_size={micro_batch} gradient_accumulation_steps={accumulated} "
    "max_steps_per_epoch={steps} tokenizer.max_seq_len={length}[ model.lora_rank={rank}]"
)
LLAMA_FACTORY = Benchmark(
    "FORCE_TORCHRUN=1[ NNODES={machines} NODE_RANK=$NODE_RANK MASTER_ADDR=$MASTER_ADDR] "
    "llamafactory-cli train $CONFIG_FILE model_name_or_path={model} cutoff_len={length} "
    "per_device_train_batch_size={micro_batch} gradient_accumulation_steps={accumulated} max_steps={steps}"
    "[ finetuning_type=lora lora_rank={rank}][ quantization_bit=4{in_4_bits}] output_dir=./measured"
)
UNSLOTH = Benchmark(
    "python unsloth-cli.py --model_name {model} --max_seq_length {length}[ --load_in_4bit{in_4_bits}][ --r {rank}] "
    "--per_device_train_batch_size {micro_batch} --gradient_accumulation_steps {accumulated} --max_steps {steps} "
    "--logging_steps 10 --output_dir ./measured"
)
AXOLOTL = Benchmark(
    "axolotl train $CONFIG_FILE --launcher torchrun --base-model {model} --sequence-len {length} "
    "--micro-batch-size {micro_batch} --gradient-accumulation-steps {accumulated} --max-steps {steps}"
    "[ --adapter {adapter} --lora-r {rank}][ --load-in-4bit{in_4_bits}] --output-dir ./measured"
    f" -- {EVERYWHERE}"
)
MLX_TRAINING = Benchmark(
    "mlx_lm.lora --model {model} --train [--data mlx-community/wikisql{mock} ][--data $DATASET{own_data} ]"
    "--fine-tune-type {adapting} --num-layers -1 "
    "--batch-size {micro_batch} --grad-accumulation-steps {accumulated} --max-seq-length {length} --iters {steps}"
    "[ --grad-checkpoint{recomputes}]"
)
OPTIMUM_HABANA_TRAINING = Benchmark(
    "PT_HPU_LAZY_MODE=1 python ../gaudi_spawn.py --world_size {accelerators} --use_deepspeed {script} "
    "--model_name_or_path {model} --dataset_name tatsu-lab/alpaca --bf16 True --do_train --use_habana --use_lazy_mode "
    "--per_device_train_batch_size {micro_batch} --gradient_accumulation_steps {accumulated} --max_steps {steps}"
    "[ --max_seq_length {adapter_length}][ --block_size {block}][ --lora_rank={rank}] --throughput_warmup_steps 3 "
    "--logging_steps 10 --output_dir ./measured"
)
NEURON_TRAINING = Benchmark("COMPILE=1 CONF_FILE=$CONF_FILE ./train.sh && CONF_FILE=$CONF_FILE ./train.sh")
# Training on samples, by kind of model.
IMAGES = Benchmark(
    f"torchrun {EVERYWHERE} run_image_classification.py --model_name_or_path {{model}} --train_dir $IMAGES_DIR "
    "--ignore_mismatched_sizes --remove_unused_columns False --do_train[ --{precision}] "
    "--per_device_train_batch_size {micro_batch} --gradient_accumulation_steps {accumulated} --max_steps {steps} "
    "--logging_steps 10 --output_dir ./measured"
)
DENOISING = Benchmark(
    f"accelerate launch{TRAINER} train_text_to_image.py --pretrained_model_name_or_path {{model}} "
    "--train_data_dir $IMAGES_DIR[ --mixed_precision {precision}] --train_batch_size {micro_batch} "
    "--gradient_accumulation_steps {accumulated} --max_train_steps {steps} --output_dir ./measured"
)
