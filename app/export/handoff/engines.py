"""Start commands of the engines: flags with their first version, container images, and the sources of both.

A version is the first one in which a flag was found; a flag without a version is as old as the server.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.errors import Unanswerable
from app.export.handoff.option import ReplicaGroup, image_for, yaml_text
from app.sizing.hardware.benchmarks import BENCHMARKS, SERVERS, Server, draft_limit, fill_template
from app.sizing.hardware.hosts import OTHER_HOSTS
from app.sizing.hardware.pool_servers import POOL_SERVERS
from app.sizing.words import product_name

Version = tuple[int, ...]
ANY_VERSION: Version = ()
CONFIG = "/tmp/server-config.yaml"  # the folder of the weights may be read-only
# Shell variables in a command, which must stay unquoted; everything else is quoted.
VARIABLE = re.compile(r"\$[A-Z_]+(:\d+)?|\$\{[A-Z_]+:-\w+\}|\$\(\(NODE_RANK\*\d+\)\)", re.ASCII)
REVISION_FLAG = "--revision"
SERVED_NAME = "--served-model-name"
REVISION = "${REVISION:-main}"  # slot for a branch, tag or commit of the repository of the weights


class UnknownFlag(Unanswerable):
    """Raised if an engine version lacks a flag that the layout needs."""

    code = "flag-not-in-version"


class NoImage(Unanswerable):
    """Raised if no container image of the engine is known for the hardware."""

    code = "no-image"


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the server of an engine."""

    engine: str
    server: Server
    source_version: Version  # version whose sources were read
    source: str  # source files and the day they were read
    flags: Mapping[str, Version]  # first version of each flag
    images: Mapping[str, str]  # container image by vendor
    network_flags: tuple[str, ...] = ()  # flags that make the server listen on all interfaces
    pool_config: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # config file entries by role
    pool_line: str = ""  # script line before the start command of a pool
    starts_per_machine: bool = True  # whether each machine of a replica runs its own start command
    defaults: Mapping[str, str] = field(default_factory=dict)  # settings that stay as they are, and what they do
    single_machine: bool = False  # whether a replica can run on one machine only
    container_setup: str = ""  # script line before the start command in a container
    plugins: Mapping[str, tuple[Version, str]] = field(default_factory=dict)  # first version and package by format
    own_images: tuple[tuple[str, str], ...] = ()  # images by prefix of the accelerator's slug; they come first
    requests_counter: str = ""  # Prometheus counter of answered requests
    queue_gauge: str = ""  # Prometheus gauge of waiting requests
    port_flag: str = "--port"  # flag of the port
    creates_model: bool = False  # whether a running server loads the model by a command of its own
    metrics_flags: tuple[str, ...] = ()  # flags that enable the Prometheus metrics
    loads: tuple[str, ...] = ()  # benchmarks of the only work that the server does; empty: any
    script: str = ""  # script of app/export/handoff/scripts that serves a library, written where the command runs it


SAMPLES = "serve_samples.py"
SERVES_HTTP = "fastapi==0.165.0 uvicorn==0.54.0 python-multipart==0.0.34"
# Accelerators on machines whose processors are not those of PyTorch's public images.
ARM_HOSTS = tuple(accelerator for host in OTHER_HOSTS for accelerator in host.accelerators)
LAUNCHES = (
    Launch(
        "vllm",
        SERVERS["vllm"],
        source_version=(0, 33, 0),
        source="vLLM 0.33.0: vllm/engine/arg_utils.py, vllm/config; read 2026-11-27",
        defaults={
            "--generation-config": "the sampling settings of the model's repository",
            "--enable-prefix-caching": "on",
            "--trust-remote-code": "off",
        },
        # vllm-project/vllm#43529 moved bitsandbytes out of the tree; read 2026-11-27.
        plugins={"nf4": ((0, 28), "vllm-bnb-plugin==0.0.3")},
        flags={
            "--tensor-parallel-size": ANY_VERSION,
            SERVED_NAME: ANY_VERSION,
            REVISION_FLAG: ANY_VERSION,
            "--pipeline-parallel-size": (0, 5),
            "--no-async-scheduling": (0, 10),
            "--data-parallel-size": (0, 8),
            "--data-parallel-size-local": (0, 9),
            "--data-parallel-start-rank": (0, 9),
            "--data-parallel-address": (0, 9),
            "--enable-expert-parallel": (0, 8),
            "--distributed-executor-backend": (0, 5),
            "--nnodes": (0, 12),
            "--node-rank": (0, 12),
            "--master-addr": (0, 12),
            "--headless": (0, 9),
            "--port": ANY_VERSION,
            "--quantization": ANY_VERSION,
            "--kv-cache-dtype": ANY_VERSION,
            "--max-model-len": ANY_VERSION,
            "--max-num-seqs": ANY_VERSION,
            "--max-num-batched-tokens": ANY_VERSION,
            "--gpu-memory-utilization": ANY_VERSION,
            "--kv-offloading-size": (0, 12),
            "--kv-offloading-backend": (0, 12),
            "--kv-transfer-config": (0, 7),
            "--decode-context-parallel-size": (0, 11),
            "--enable-lora": (0, 4),
            "--max-loras": (0, 4),
            "--max-lora-rank": (0, 4),
            "--speculative-config.method": (0, 10),
            "--speculative-config.num_speculative_tokens": (0, 10),
            "--speculative-config.model": (0, 10),
        },
        images={"NVIDIA": "vllm/vllm-openai:v{version}", "AMD": "vllm/vllm-openai-rocm:v{version}"},
        # vllm/envs.py of 0.33.0: without this address, decode replicas look for the KV cache on their own machine.
        pool_line='export VLLM_NIXL_SIDE_CHANNEL_HOST="${VLLM_NIXL_SIDE_CHANNEL_HOST:-$(hostname -i)}"',
        requests_counter="vllm:request_success_total",
        queue_gauge="vllm:num_requests_waiting",
    ),
    Launch(
        "sglang",
        SERVERS["sglang"],
        source_version=(0, 5, 23),
        source="SGLang 0.5.23: sglang/srt/arg_groups/fields; read 2026-11-27",
        defaults={
            "--sampling-defaults": "the sampling settings of the model's repository",
            "--disable-radix-cache": "off, so prefixes are cached",
            "--max-queued-requests": "no limit",
            "--trust-remote-code": "off",
        },
        flags={
            "-m": ANY_VERSION,
            "--model-path": ANY_VERSION,
            SERVED_NAME: ANY_VERSION,
            "--is-embedding": ANY_VERSION,
            REVISION_FLAG: ANY_VERSION,
            "--tp-size": ANY_VERSION,
            "--pp-size": (0, 5),
            "--dp-size": ANY_VERSION,
            "--enable-dp-attention": (0, 4),
            "--moe-a2a-backend": (0, 5),
            "--ep-size": (0, 4),
            "--nnodes": ANY_VERSION,
            "--node-rank": ANY_VERSION,
            "--dist-init-addr": (0, 4),
            "--quantization": ANY_VERSION,
            "--kv-cache-dtype": ANY_VERSION,
            "--context-length": ANY_VERSION,
            "--max-running-requests": ANY_VERSION,
            "--chunked-prefill-size": ANY_VERSION,
            "--mem-fraction-static": ANY_VERSION,
            "--enable-hierarchical-cache": (0, 4, 6),
            "--hicache-size": (0, 4, 6),
            "--host": ANY_VERSION,
            "--port": ANY_VERSION,
            "--disaggregation-mode": (0, 4, 5),
            "--disaggregation-bootstrap-port": (0, 4, 5),
            "--dcp-size": (0, 5, 23),
            "--enable-lora": (0, 5),
            "--max-loras-per-batch": (0, 5),
            "--max-lora-rank": (0, 5),
            "--lora-target-modules": (0, 5),
            "--speculative-algorithm": (0, 5),
            "--speculative-num-draft-tokens": (0, 5),
            "--speculative-num-steps": (0, 5),
            "--speculative-eagle-topk": (0, 5),
            "--speculative-draft-model-path": (0, 5),
            "--enable-metrics": ANY_VERSION,
        },
        images={"NVIDIA": "lmsysorg/sglang:v{version}"},
        network_flags=("--host", "0.0.0.0"),
        requests_counter="sglang:num_requests_total",
        queue_gauge="sglang:num_queue_reqs",
        metrics_flags=("--enable-metrics",),
    ),
    Launch(
        "tensorrt-llm",
        SERVERS["tensorrt-llm"],
        source_version=(1, 2, 1),
        source="TensorRT-LLM 1.2.1: tensorrt_llm/commands/serve.py, examples/disaggregated; read 2026-11-27",
        defaults={"--backend": "pytorch", "--trust_remote_code": "off"},
        flags={
            "--tp_size": ANY_VERSION,
            "--pp_size": ANY_VERSION,
            "--ep_size": ANY_VERSION,
            "--max_seq_len": ANY_VERSION,
            "--max_batch_size": ANY_VERSION,
            "--max_num_tokens": ANY_VERSION,
            "--enable_chunked_prefill": (1, 0),
            "--kv_cache_free_gpu_memory_fraction": ANY_VERSION,
            "--config": (1, 2),
            REVISION_FLAG: (1, 2),
            "--host": ANY_VERSION,
            "--port": ANY_VERSION,
            "--mpi": ANY_VERSION,
            "-N": ANY_VERSION,
            "-n": ANY_VERSION,
        },
        images={"NVIDIA": "nvcr.io/nvidia/tensorrt-llm/release:{version}"},
        network_flags=("--host", "0.0.0.0"),
        pool_config=POOL_SERVERS["tensorrt-llm"].config,
        starts_per_machine=False,
    ),
    Launch(
        "llama.cpp",
        SERVERS["llama.cpp"],
        source_version=(),
        source="ggml-org/llama.cpp@00dc8057: tools/server/README.md; read 2026-11-27",
        defaults={
            "--flash-attn": "auto",
            "--ubatch-size": "512 tokens",
            "--temp": "0.8 where a request states none",
            "--n-predict": "no limit where a request states no max_tokens",
        },
        flags={
            "-m": ANY_VERSION,
            "-hf": ANY_VERSION,
            "-ngl": ANY_VERSION,
            "--n-cpu-moe": ANY_VERSION,
            "-c": ANY_VERSION,
            "--kv-unified": ANY_VERSION,
            "-np": ANY_VERSION,
            "-b": ANY_VERSION,
            "-ctk": ANY_VERSION,
            "-ctv": ANY_VERSION,
            "--spec-type": ANY_VERSION,
            "-md": ANY_VERSION,
            "--spec-draft-n-max": ANY_VERSION,
            "--spec-ngram-simple-size-m": ANY_VERSION,
            "--host": ANY_VERSION,
            "--port": ANY_VERSION,
        },
        images={
            "NVIDIA": "ghcr.io/ggml-org/llama.cpp:server-cuda",
            "AMD": "ghcr.io/ggml-org/llama.cpp:server-rocm",
            "Intel": "ghcr.io/ggml-org/llama.cpp:server-intel",
        },
        network_flags=("--host", "0.0.0.0"),
        single_machine=True,
        container_setup='export PATH="/app:$PATH"',  # where the images keep llama-server
    ),
    Launch(
        "ollama",
        SERVERS["ollama"],
        source_version=(),
        source="ollama/ollama@fb307609: envconfig/config.go, docs/docker.md; read 2026-11-26",
        defaults={"OLLAMA_MAX_QUEUE": "512 requests; the server refuses more"},
        flags={},
        images={"NVIDIA": "ollama/ollama", "AMD": "ollama/ollama:rocm"},
        single_machine=True,
        creates_model=True,
    ),
    Launch(
        "lmdeploy",
        SERVERS["lmdeploy"],
        source_version=(0, 18, 0),
        source="LMDeploy 0.18.0: lmdeploy/cli/serve.py, lmdeploy/cli/utils.py; read 2026-11-27",
        defaults={
            "--backend": "turbomind",
            "--max-prefill-token-num": "8192",
            "--enable-prefix-caching": "off",
            "--max-concurrent-requests": "no limit",
        },
        flags={
            "--tp": ANY_VERSION,
            "--session-len": ANY_VERSION,
            REVISION_FLAG: ANY_VERSION,
            "--max-batch-size": ANY_VERSION,
            "--cache-max-entry-count": ANY_VERSION,
            "--quant-policy": ANY_VERSION,
            "--speculative-algorithm": (0, 18),
            "--speculative-num-draft-tokens": (0, 18),
            "--speculative-draft-model": (0, 18),
            "--server-port": ANY_VERSION,
        },
        images={"NVIDIA": "openmmlab/lmdeploy:v{version}-cu12"},
        single_machine=True,
        port_flag="--server-port",
    ),
    Launch(
        "tgi",
        SERVERS["tgi"],
        source_version=(3, 3, 7),
        source="TGI 3.3.7 (db931fcf): launcher/src/main.rs, tgi-entrypoint.sh, README.md; read 2026-11-23",
        flags={
            "--model-id": ANY_VERSION,
            "--num-shard": ANY_VERSION,
            REVISION_FLAG: ANY_VERSION,
            "--port": ANY_VERSION,
            "--max-total-tokens": ANY_VERSION,
            "--max-batch-size": (2, 0),
            "--quantize": ANY_VERSION,
            "--kv-cache-dtype": (2, 4),
            "--speculate": (3, 3),
        },
        images={
            "NVIDIA": "ghcr.io/huggingface/text-generation-inference:{version}",
            "AMD": "ghcr.io/huggingface/text-generation-inference:{version}-rocm",
        },
        single_machine=True,
        container_setup="[ ! -f /usr/src/.venv/bin/activate ] || . /usr/src/.venv/bin/activate",
        requests_counter="tgi_request_success",
        queue_gauge="tgi_queue_size",
        defaults={
            "--max-concurrent-requests": "128; the server refuses more at once, so raise it by the queue length",
            "--max-client-batch-size": "4 inputs in a request",
            "--trust-remote-code": "off",
        },
    ),
    Launch(
        "text-embeddings-inference",
        SERVERS["text-embeddings-inference"],
        source_version=(1, 9, 3),
        source="TEI 1.9.3 (0d124dc9): router/src/main.rs, cuda-all-entrypoint.sh, README.md; read 2026-11-27",
        defaults={
            "--max-concurrent-requests": "512; the server refuses more at once",
            "--max-client-batch-size": "32 inputs in a request",
            "--payload-limit": "2,000,000 bytes in a request",
            "--auto-truncate": "on: the server cuts inputs that are longer than the model reads",
        },
        flags={
            "--model-id": ANY_VERSION,
            REVISION_FLAG: ANY_VERSION,
            "--port": ANY_VERSION,
            "--max-batch-tokens": ANY_VERSION,
            "--max-batch-requests": ANY_VERSION,
        },
        images={"NVIDIA": "ghcr.io/huggingface/text-embeddings-inference:cuda-{minor}"},
        single_machine=True,
        # The image for all GPU generations contains one router per generation; its entry point selects one.
        container_setup="command -v text-embeddings-router || ln -s /entrypoint.sh "
        "/usr/local/bin/text-embeddings-router",
        own_images=(
            ("nvidia-gb10", "ghcr.io/huggingface/text-embeddings-inference:121-{minor}"),
            *((start, "") for start in ("nvidia-gh200", "nvidia-gb200", "nvidia-gb300", "nvidia-b300", "nvidia-v100")),
        ),
    ),
    Launch(
        "mlx",
        SERVERS["mlx"],
        source_version=(0, 32, 2),
        source="mlx-lm 0.32.2: mlx_lm/server.py; read 2026-11-27",
        defaults={
            "--max-tokens": "512 where a request states no max_tokens",
            "--prompt-concurrency": "8 prompts",
            "--prefill-step-size": "2048 tokens",
        },
        flags={
            "--model": ANY_VERSION,
            "--port": ANY_VERSION,
            "--decode-concurrency": (0, 30, 6),
            "--draft-model": (0, 32),
            "--num-draft-tokens": (0, 32),
            "--host": ANY_VERSION,
        },
        images={},
        network_flags=("--host", "0.0.0.0"),
        single_machine=True,
    ),
    Launch(
        "ctranslate2",
        SERVERS["ctranslate2"],
        source_version=(4, 8, 5),
        source="CTranslate2 4.8.5: models.Whisper; faster-whisper 1.2.1: faster_whisper/transcribe.py; read 2026-11-27",
        flags=dict.fromkeys(("--model", REVISION_FLAG, "--compute-type", "--beams", "--batch", "--port"), ANY_VERSION),
        images={"NVIDIA": "pytorch/pytorch:2.10.0-cuda12.8-cudnn9-devel"},
        own_images=tuple((start, "") for start in ARM_HOSTS),
        single_machine=True,
        container_setup="pip install ctranslate2=={version} faster-whisper==1.2.1 transformers==5.23.0 " + SERVES_HTTP,
        loads=(BENCHMARKS["faster-whisper"].load,),
        script=SAMPLES,
    ),
    Launch(
        "diffusers",
        SERVERS["diffusers"],
        source_version=(0, 42, 1),
        source="Diffusers 0.42.1: DiffusionPipeline; read 2026-11-27",
        flags=dict.fromkeys(("--model", REVISION_FLAG, "--format", "--steps", "--batch", "--port"), ANY_VERSION),
        images={"NVIDIA": "pytorch/pytorch:2.10.0-cuda12.8-cudnn9-devel", "AMD": "rocm/pytorch:latest"},
        own_images=tuple((start, "") for start in ARM_HOSTS),
        single_machine=True,
        container_setup="pip install diffusers=={version} transformers==5.23.0 accelerate==1.15.0 " + SERVES_HTTP,
        loads=(BENCHMARKS["pictures"].load,),
        script=SAMPLES,
    ),
    Launch(
        "pytorch",
        SERVERS["pytorch"],
        source_version=(2, 10, 0),
        source="transformers 5.23.0: transformers/pipelines; read 2026-11-27",
        flags=dict.fromkeys(("--model", REVISION_FLAG, "--format", "--batch", "--port"), ANY_VERSION),
        images={"NVIDIA": "pytorch/pytorch:{version}-cuda12.8-cudnn9-devel", "AMD": "rocm/pytorch:latest"},
        own_images=tuple((start, "") for start in ARM_HOSTS),
        single_machine=True,
        container_setup="pip install transformers==5.23.0 pillow==13.0.0 timm==1.0.31 faster-whisper==1.2.1 "
        + SERVES_HTTP,
        loads=(BENCHMARKS["passes"].load,),
        script=SAMPLES,
    ),
)
BY_ENGINE = {launch.engine: launch for launch in LAUNCHES}


def parse_version(text: str | None, launch: Launch) -> Version:
    """Installed version; without one, the version whose sources were read.

    Check:
        >>> parse_version("0.11.2.dev3", LAUNCHES[0]), parse_version(None, LAUNCHES[0])
        ((0, 11, 2), (0, 33, 0))
    """
    numbers = tuple(int(number) for number in re.findall(r"\d+", (text or "").split("dev", maxsplit=1)[0])[:3])
    return numbers or launch.source_version


def start_command(
    group: ReplicaGroup, launch: Launch, *, cache_tokens: int, shared_name: str | None, has_stages: bool
) -> list[str]:
    """Command that starts one machine's part of a replica, split as a shell splits it.

    Parameters:
        cache_tokens: size of the KV cache in tokens.
        shared_name: name of the model in requests, if pools load different weights.
        has_stages: whether the prefill pool has pipeline stages.
    """
    places = dict(group.places)
    places["cache_tokens"] = cache_tokens
    # The script writes one file.
    places |= dict.fromkeys(("ranks_config", "draft_config", "written_config", "host_config"))
    places["config"] = CONFIG if config_text(group, launch) else None
    tokens = shlex.split(fill_template((group.server or launch.server).command, places))
    servers = POOL_SERVERS[launch.engine] if group.is_pool else None
    pool = shlex.split(servers.flags_of(group.role, shared_name, has_stages=has_stages)) if servers else ()
    return [*tokens, *pool, *launch.network_flags]


def revision_tokens(group: ReplicaGroup, launch: Launch, version: Version) -> list[str]:
    """Flag with the slot of the revision; empty if the engine has no such flag, or loads weights from a path."""
    since = launch.flags.get(REVISION_FLAG)
    from_path = group.model.startswith((".", "/"))
    return [] if since is None or from_path or (version and version < since) else [REVISION_FLAG, REVISION]


def config_text(group: ReplicaGroup, launch: Launch) -> str:
    """Configuration file with the settings that have no flag; empty if there are none."""
    if launch.engine != "tensorrt-llm":
        return ""
    ranks = {"enable_attention_dp": True} if group.int_place("data") > 1 else {}
    cache: dict[str, object] = {"dtype": group.places["cache"]} if group.places.get("cache") else {}
    if group.places.get("host_cache_rank_bytes"):
        cache["host_cache_size"] = group.int_place("host_cache_rank_bytes")
    stored = {"kv_cache_config": cache} if cache else {}
    settings = {**ranks, **stored, **draft_settings(group), **launch.pool_config.get(group.role, {})}
    return yaml_text(settings) if settings else ""


def draft_settings(group: ReplicaGroup) -> dict[str, object]:
    """Settings of speculative decoding in TensorRT-LLM's configuration file; empty without it."""
    drafting, draft = group.places.get("drafting"), group.places.get("draft")
    if not drafting:
        return {}
    model = {"speculative_model_dir": draft} if draft else {}
    limit = draft_limit(str(group.places.get("draft_method")))
    return {"speculative_config": {"decoding_type": drafting, limit: group.int_place("draft_tokens"), **model}}


def with_port(tokens: list[str], launch: Launch, port: str) -> list[str]:
    """A start command that listens on another port.

    Check:
        >>> with_port(["serve", "--port", "80", "-x"], LAUNCHES[0], "$PORT"), with_port(["serve"], LAUNCHES[0], "81")
        (['serve', '--port', '$PORT', '-x'], ['serve', '--port', '81'])
    """
    if launch.port_flag not in tokens:
        return [*tokens, launch.port_flag, port]
    at = tokens.index(launch.port_flag)
    return [*tokens[: at + 1], port, *tokens[at + 2 :]]


def check_flags(tokens: Iterable[str], launch: Launch, version: Version) -> None:
    """Raises UnknownFlag if a version lacks a flag of the command, or if no source lists the flag."""
    for flag in command_flags(tokens):
        since = launch.flags.get(flag)
        if since is None:
            raise UnknownFlag(f"This layout needs {flag}, which the documented sources do not list: {launch.source}.")
        if version and version < since:
            raise UnknownFlag(
                f"{product_name(launch.engine)} {format_version(version)} has no {flag}, which this layout needs. "
                "The flag "
                f"exists since version {format_version(since)}."
            )


def command_flags(tokens: Iterable[str]) -> list[str]:
    return [token.split("=", 1)[0] for token in tokens if re.match(r"--?[A-Za-z]", token)]


def ollama_lines(group: ReplicaGroup, launch: Launch, name: str, port: str) -> tuple[str, ...]:
    """Lines that start Ollama with the settings of its start command, create the model and load it.

    Parameters:
        name: name of the model in requests.
        port: port of the server, or a shell variable that holds it.
    """
    settings = shlex.split(fill_template((group.server or launch.server).command, group.places))[:-2]
    origin = str(group.places["gguf_origin"])
    # Ollama reads a relative path from the folder of the Modelfile: cmd/cmd.go of ollama/ollama, read 2026-11-27.
    folder = '"$PWD"/' if origin.startswith("./") else ""
    return (
        f"export {' '.join(settings)} OLLAMA_HOST=0.0.0.0:{port} OLLAMA_KEEP_ALIVE=-1",
        "ollama serve &",
        "SERVER=$!",
        "trap 'kill -TERM \"$SERVER\"' TERM INT",
        "until ollama list > /dev/null 2>&1; do sleep 1; done",
        f"echo FROM {folder}{shlex.quote(origin.removeprefix('./'))} > /tmp/Modelfile",
        f"ollama create {name} -f /tmp/Modelfile",
        f"ollama run {name} '' > /dev/null",
        'wait "$SERVER"',
    )


def format_version(version: Version) -> str:
    return ".".join(map(str, version))


def container_image(group: ReplicaGroup, launch: Launch, version: Version) -> str:
    """Container image of an engine for the hardware of a group. Raises NoImage."""
    own = (image for start, image in launch.own_images if group.sku.startswith(start))
    image = next(own, launch.images.get(group.vendor))
    if not image:
        vendors = ", ".join(launch.images)
        known = f"Images are available for {vendors}." if vendors else "The engine publishes no images."
        if image == "":
            known = "The published images do not support this accelerator."
        hardware = group.accelerator if image == "" else group.vendor
        raise NoImage(f"No container image of {product_name(launch.engine)} is known for {hardware}. {known}")
    return image_for(image.format(version=format_version(version), minor=format_version(version[:2])), group.sku)


def format_command(tokens: list[str]) -> str:
    """Command as a shell script writes it, one flag per line."""
    words = [token if VARIABLE.fullmatch(token) else shlex.quote(token) for token in tokens]
    text = words[0]
    for word in words[1:]:
        text += (" \\\n  " if re.match(r"--?[A-Za-z]", word) else " ") + word
    return text
