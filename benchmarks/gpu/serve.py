"""Measures vLLM or SGLang on one GPU: first tokens, decode steps, closed loops, random arrivals, memory and power.

Needs the engine and aiohttp, no network and no checkpoint: weights are random (`--load-format dummy`); the tokenizer
knows one word per token. Run it on an idle GPU with unchanged clocks:

    python -m benchmarks.gpu.serve --out points.jsonl --limit-s 550
    python -m benchmarks.gpu.serve --out points.jsonl --engine sglang
    python -m benchmarks.gpu.serve --out own-h100-2026-11-27.jsonl --rows rows.csv   # as rows of published results

Each model is served with the defaults of its engine; a client on the same machine streams completions of
random token ids. Each point is one JSON line, written when it is done. A second run with the same file skips the points
that the file has. The memory that the server states at its start is a point of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

PORT = 8123
SHARED: dict[str, Any] = {"torch_dtype": "bfloat16", "bos_token_id": 0, "eos_token_id": 1, "hidden_act": "silu"}
QWEN: dict[str, Any] = SHARED | {
    "vocab_size": 151936,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
# The published configurations, and the options of the server in addition to its defaults.
MODELS: dict[str, dict[str, Any]] = {
    "meta-llama/Llama-3.1-8B": SHARED
    | {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
    },
    "Qwen/Qwen3-32B": QWEN
    | {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 5120,
        "intermediate_size": 25600,
        "num_hidden_layers": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
    },
    "openai/gpt-oss-20b": SHARED
    | {
        "model_type": "gpt_oss",
        "architectures": ["GptOssForCausalLM"],
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_hidden_layers": 24,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 201088,
        "max_position_embeddings": 131072,
        "initial_context_length": 4096,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "rope_theta": 150000,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
        },
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "experts_per_token": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
        "swiglu_limit": 7.0,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
        },
    },
    "Qwen/Qwen3-30B-A3B": QWEN
    | {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    "deepseek-ai/DeepSeek-V2-Lite": SHARED
    | {
        "model_type": "deepseek_v2",
        "architectures": ["DeepseekV2ForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 10944,
        "moe_intermediate_size": 1408,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 102400,
        "max_position_embeddings": 163840,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "rope_theta": 10000,
        "rope_scaling": {
            "type": "yarn",
            "factor": 40,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 0.707,
            "mscale_all_dim": 0.707,
            "original_max_position_embeddings": 4096,
        },
        "topk_method": "greedy",
        "n_group": 1,
        "topk_group": 1,
        "scoring_func": "softmax",
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
        "moe_layer_freq": 1,
    },
}
# Two servers that start on one card at the same time are given their memory: each would count the other's as its own.
SHARED_CARD = ["--gpu-memory-utilization", "0.3", "--kv-cache-memory-bytes", str(10 * 10**9)]
SHARED_CARD_SGLANG = ["--mem-fraction-static", "0.8", "--max-total-tokens", "80000"]
# Groups of (name, model, weight format, options) by engine. The servers of a group start together and are measured one
# after the other, while the rest of the group is idle. Mixtures of experts sample at temperature 1: with random weights
# the most likely token would be the same in each sequence, and all would read the same experts.
Server = tuple[str, str, str, list[str]]
GROUPS: dict[str, list[list[Server]]] = {
    "vllm": [
        [("8b", "meta-llama/Llama-3.1-8B", "bf16", [])],
        [("32b-fp8", "Qwen/Qwen3-32B", "fp8", ["--quantization", "fp8"])],
        [
            ("gpt-oss", "openai/gpt-oss-20b", "mxfp4", SHARED_CARD),
            ("v2-lite", "deepseek-ai/DeepSeek-V2-Lite", "bf16", SHARED_CARD),
        ],
        [("30b-a3b", "Qwen/Qwen3-30B-A3B", "bf16", [])],
        [
            ("8b-eager", "meta-llama/Llama-3.1-8B", "bf16", ["--enforce-eager", *SHARED_CARD]),
            ("8b-fp8", "meta-llama/Llama-3.1-8B", "fp8", ["--quantization", "fp8", *SHARED_CARD]),
        ],
    ],
    "sglang": [
        [("8b", "meta-llama/Llama-3.1-8B", "bf16", [])],
        [("30b-a3b", "Qwen/Qwen3-30B-A3B", "bf16", [])],
        [("32b-fp8", "Qwen/Qwen3-32B", "fp8", ["--quantization", "fp8"])],
        [
            ("gpt-oss", "openai/gpt-oss-20b", "mxfp4", SHARED_CARD_SGLANG),
            (
                "8b-eager",
                "meta-llama/Llama-3.1-8B",
                "bf16",
                ["--disable-cuda-graph", "--disable-piecewise-cuda-graph", *SHARED_CARD_SGLANG],
            ),
        ],
    ],
}
SMALLEST_VOCABULARY = 102400
STATED = (
    "Model loading took",
    "Available KV cache memory",
    "GPU KV cache size",
    "Maximum concurrency",
    "Graph capturing finished",
    "backend",
    "Chunked prefill is enabled",
    "torch.compile takes",
    "init engine",
    "non-default args",
    "max_num_batched_tokens",
    "memory",
    "Load weight end",
    "KV Cache is allocated",
    "Memory pool end",
    "Capture",
    "max_total_num_tokens",
)


class Client:
    """Streams completions and keeps the times of their tokens."""

    def __init__(self, session: Any, port: int, temperature: float) -> None:
        self.session, self.port, self.temperature = session, port, temperature
        self.random = random.Random(0)

    def prompt(self, tokens: int) -> list[int]:
        return [self.random.randrange(2, SMALLEST_VOCABULARY) for _ in range(tokens)]

    async def ask(self, prompt: list[int], output: int) -> dict[str, Any]:
        """Start, first token, end (host clock), and the time of each received event."""
        body = {
            "model": "m",
            "prompt": prompt,
            "max_tokens": output,
            "ignore_eos": True,
            "stream": True,
            "temperature": self.temperature,
        }
        data = json.dumps(body).encode()
        start = time.perf_counter()
        async with self.session.post(
            f"http://127.0.0.1:{self.port}/v1/completions", data=data, headers={"Content-Type": "application/json"}
        ) as reply:
            if reply.status != 200:
                raise RuntimeError(f"{reply.status}: {(await reply.text())[:300]}")
            times = [time.perf_counter() async for line in reply.content if line.startswith(b"data: {")]
        return {"start": start, "times": times, "input": len(prompt), "output": output}


def describe(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """TTFT, TPOT and end-to-end seconds over the answers: mean, median, p90, p99."""
    found: dict[str, Any] = {"requests": len(answers)}
    ttft = [a["times"][0] - a["start"] for a in answers]
    tpot = [(a["times"][-1] - a["times"][0]) / (a["output"] - 1) for a in answers if a["output"] > 1]
    total = [a["times"][-1] - a["start"] for a in answers]
    for name, values in (("ttft_s", ttft), ("tpot_s", tpot), ("e2e_s", total)):
        if values:
            ordered = sorted(values)
            found[name] = {
                "mean": statistics.mean(values),
                "p50": statistics.median(values),
                "p90": ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))],
                "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
                "min": ordered[0],
            }
    return found


async def one_by_one(client: Client, tokens: int, output: int, count: int) -> dict[str, Any]:
    return describe([await client.ask(client.prompt(tokens), output) for _ in range(count)])


async def at_once(client: Client, tokens: int, output: int, count: int) -> dict[str, Any]:
    prompts = [client.prompt(tokens) for _ in range(count)]
    begin = time.perf_counter()
    answers = await asyncio.gather(*(client.ask(p, output) for p in prompts))
    wall = max(a["times"][-1] for a in answers) - begin
    return describe(answers) | {
        "wall_s": wall,
        "input_tokens_per_s": tokens * count / wall,
        "output_tokens_per_s": output * count / wall,
    }


async def in_flight(client: Client, tokens: int, output: int, count: int, window_s: float) -> dict[str, Any]:
    """A number of requests in flight all the time, measured after one round of shortened answers has spread them."""
    done: list[dict[str, Any]] = []
    first = asyncio.Event()
    waiting = count
    stop = False

    async def worker(shortened: int) -> None:
        nonlocal waiting
        await client.ask(client.prompt(tokens), shortened)
        waiting -= 1
        if not waiting:
            first.set()
        while not stop:
            done.append(await client.ask(client.prompt(tokens), output))

    spread = [max(2, output * (i + 1) // count) for i in range(count)]
    client.random.shuffle(spread)
    tasks = [asyncio.create_task(worker(n)) for n in spread]
    await asyncio.wait_for(first.wait(), 60)
    begin = time.perf_counter()
    await asyncio.sleep(window_s)
    end = time.perf_counter()
    stop = True
    await asyncio.gather(*tasks)
    per_event = [a["output"] / len(a["times"]) for a in done for t in a["times"] if begin <= t <= end]
    within = [a for a in done if a["start"] >= begin and a["times"][-1] <= end]
    return (describe(within) if within else {"requests": 0}) | {
        "window_s": end - begin,
        "output_tokens_per_s": sum(per_event) / (end - begin),
        "requests_per_s": sum(begin <= a["times"][-1] <= end for a in done) / (end - begin),
    }


async def arrivals(client: Client, tokens: int, output: int, rate: float, seconds: float) -> dict[str, Any]:
    """Random (Poisson) arrivals at a rate per second; the first fifth is not counted."""
    tasks = []
    begin = time.perf_counter()
    at = 0.0
    while at < seconds:
        at += client.random.expovariate(rate)
        prompt = client.prompt(tokens)
        await asyncio.sleep(max(0.0, begin + at - time.perf_counter()))
        tasks.append(asyncio.create_task(client.ask(prompt, output)))
    answers = await asyncio.gather(*tasks)
    counted = [a for a in answers if a["start"] - begin >= seconds / 5]
    return describe(counted) | {"rate_per_s": len(tasks) / at}


Point = tuple[str, dict[str, Any], Callable[[Client], Awaitable[dict[str, Any]]]]


def points_of(name: str) -> list[Point]:
    """The points of a server, in order of value."""
    big = name in ("32b-fp8", "30b-a3b")

    def single(tokens: int, output: int, count: int) -> Point:
        fields = {"kind": "one by one", "in_flight": 1, "input_tokens": tokens, "output_tokens": output}
        return f"one by one {tokens}+{output}", fields, lambda c: one_by_one(c, tokens, output, count)

    def burst(tokens: int, output: int, count: int) -> Point:
        fields = {"kind": "at once", "in_flight": count, "input_tokens": tokens, "output_tokens": output}
        return f"at once {count}x{tokens}+{output}", fields, lambda c: at_once(c, tokens, output, count)

    def loop(tokens: int, output: int, count: int, window_s: float) -> Point:
        fields = {"kind": "in flight", "in_flight": count, "input_tokens": tokens, "output_tokens": output}
        return f"in flight {count}x{tokens}+{output}", fields, lambda c: in_flight(c, tokens, output, count, window_s)

    def poisson(tokens: int, output: int, rate: float, seconds: float) -> Point:
        fields = {"kind": "random arrivals", "input_tokens": tokens, "output_tokens": output, "asked_per_s": rate}
        return f"arrivals {rate}/s {tokens}+{output}", fields, lambda c: arrivals(c, tokens, output, rate, seconds)

    prompts = [single(128, 1, 8), single(512, 1, 8), single(2048, 1, 5), single(8192, 1, 3)]
    streams = [single(512, 96, 2), single(4096, 64, 2)]
    if name == "8b-eager":
        return [*prompts[:3], *streams[:1], burst(512, 128, 64)]
    rest = [
        loop(1024, 256, 16, 7),
        loop(1024, 256, 64 if name == "30b-a3b" else 128, 10),
        burst(2048, 1, 32 if big else 64),
        single(32000, 1, 2),
        single(32000, 48, 1),
        burst(512, 128, 4),
        burst(512, 192, 128 if name == "30b-a3b" else 256),
        burst(512, 128, 64),
        poisson(1024, 256, 3 if big else 10, 12),
        loop(4096, 512, 32, 8),
    ]
    return [*prompts, *streams, *rest]


def write_models(folder: Path) -> None:
    for model, config in MODELS.items():
        path = folder / model.replace("/", "--")
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(config))
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"tok{i}": i for i in range(201088)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="tok0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    path = folder / "tokenizer"
    path.mkdir(exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    special = {"bos_token": "tok0", "eos_token": "tok1", "unk_token": "tok0", "model_max_length": 1000000}
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | special))


class Recorder:
    """Writes points as JSON lines and knows which are written."""

    def __init__(self, path: Path, end: float) -> None:
        self.path, self.end = path, end
        self.done: set[tuple[str, str]] = set()
        if path.exists():
            lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
            self.done = {(p["server"], p["key"]) for p in lines if "error" not in p}

    def write(self, point: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(point) + "\n")
        short = {
            k: v for k, v in point.items() if k in ("output_tokens_per_s", "input_tokens_per_s", "error", "power_w")
        }
        for name in ("ttft_s", "tpot_s"):
            if name in point:
                short[name] = round(point[name]["p50"], 5)
        print(point["server"], point["key"], short, flush=True)


async def measure(rec: Recorder, sampler: Any, port: int, server: str, model: str, weights: str) -> None:
    import aiohttp

    temperature = 0.0 if server.startswith(("8b", "32b")) else 1.0
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        client = Client(session, port, temperature)
        base = {"server": server, "model": model, "weights": weights}
        await at_once(client, 512, 16, 16)
        for tokens in (128, 512, 2048, 9000):
            await one_by_one(client, tokens, 8, 1)
        for key, fields, run in points_of(server):
            if (server, key) in rec.done:
                continue
            if time.monotonic() > rec.end:
                return
            found: dict[str, Any] = {}
            began = time.perf_counter()
            with sampler.watch(found):
                try:
                    found |= await asyncio.wait_for(run(client), 90)
                except Exception as error:
                    found["error"] = f"{type(error).__name__}: {error}"[:400]
            rec.write(base | {"key": key, **fields, "took_s": time.perf_counter() - began, **found})


async def ready(process: subprocess.Popen[bytes], port: int, end: float) -> bool:
    import aiohttp

    async with aiohttp.ClientSession() as session:
        while process.poll() is None and time.monotonic() < end:
            try:
                async with session.get(f"http://127.0.0.1:{port}/health") as reply:
                    if reply.status == 200:
                        return True
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.3)
    return False


def start(work: Path, port: int, server: Server, engine: str) -> subprocess.Popen[bytes]:
    name, model, _, options = server
    path, tokenizer = str(work / model.replace("/", "--")), str(work / "tokenizer")
    command = [sys.executable, "-m"]
    if engine == "vllm":
        command += ["vllm.entrypoints.cli.main", "serve", path, "--tokenizer", tokenizer]
        command += ["--generation-config", "vllm", "--disable-uvicorn-access-log"]
    else:
        command += ["sglang.launch_server", "--model-path", path, "--tokenizer-path", tokenizer]
        command += ["--log-level-http", "warning"]
    command += ["--load-format", "dummy", "--served-model-name", "m", "--port", str(port), *options]
    with (work / f"{name}.log").open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)


def serve(rec: Recorder, sampler: Any, work: Path, group: list[Server], engine: str) -> None:
    group = [s for s in group if not all((s[0], key) in rec.done for key, *_ in points_of(s[0]))]
    if not group or time.monotonic() > rec.end - 60:
        return
    began = time.monotonic()
    processes = [start(work, PORT + i, server, engine) for i, server in enumerate(group)]
    try:
        started = []
        for i, (process, server) in enumerate(zip(processes, group, strict=True)):
            name, model, weights, options = server
            log = work / f"{name}.log"
            if not asyncio.run(ready(process, PORT + i, min(rec.end, began + 260))):
                text = log.read_text(errors="replace")
                print(f"-- {name} did not start in {time.monotonic() - began:.0f} s\n{text[-3500:]}", flush=True)
                continue
            print(f"-- {name} started in {time.monotonic() - began:.1f} s", flush=True)
            lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in log.read_text(errors="replace").splitlines()]
            stated = [line[:600] for line in lines if any(s in line for s in STATED)]
            state = {"start_s": time.monotonic() - began, "used_bytes": sampler.used_bytes(), "stated": stated}
            state |= {"gpu": sampler.describe().get("gpu"), "engine": engine, "engine_version": version(engine)}
            rec.write({"server": name, "model": model, "weights": weights, "key": "start", "options": options, **state})
            started.append((PORT + i, name, model, weights))
        for at in started:
            asyncio.run(measure(rec, sampler, *at))
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(1)


# The columns of `measurements_inference.csv` that a kind of point sets, and how its requests arrived.
STARTS = {"one by one": "single", "at once": "burst", "in flight": "steady", "random arrivals": "poisson"}
LOADS = {"one by one": "single", "random arrivals": "request_rate"}
ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}
ACCELERATORS = {"NVIDIA H100 80GB HBM3": "nvidia-h100-sxm5-80gb"}
FIXED = {
    "num_accelerators": "1",
    "kv_precision": "bf16",
    "tp": "1",
    "run_client": "http",
    "length_spread": "fixed",
}


def rows_of(points: list[dict[str, Any]], source: str) -> list[dict[str, str]]:
    """The measured points as rows of a published result; card and engine are those of their server's start."""

    def number(value: float) -> str:
        return f"{value:.6g}"

    rows: list[dict[str, str]] = []
    started: dict[str, dict[str, Any]] = {}
    for p in points:
        if p["key"] == "start":
            started[p["server"]] = p
        if p["key"] == "start" or "error" in p:
            continue
        start = started[p["server"]]
        if "--disable-cuda-graph" in start["options"] and p["output_tokens"] > 1:
            continue  # the table has no column for a decode without graphs
        kind, in_flight = p["kind"], p.get("in_flight", 1)
        row = FIXED | {
            "id": f"{source}-{len(rows) + 1:04d}",
            "source_key": source,
            "source_ref": f"benchmarks/gpu/{source}.jsonl: {p['server']}, {p['key']}",
            "source_date": source[-10:],
            "accelerator": ACCELERATORS[start["gpu"]],
            "accelerator_as_published": start["gpu"],
            "engine": ENGINES[start.get("engine", "vllm")],
            "engine_version": start["engine_version"],
            "model": p["model"],
            "weight_precision": p["weights"],
            "load_kind": LOADS.get(kind, "concurrency"),
            "load_value": number(p["rate_per_s"]) if kind == "random arrivals" else str(in_flight),
            "input_len": str(p["input_tokens"]),
            "output_len": str(p["output_tokens"]),
            "run_start": STARTS[kind],
            "run_requests": "" if kind == "in flight" else str(p["requests"]),
        }
        if "output_tokens_per_s" in p:
            generated = p["output_tokens"] > 1
            row["output_tok_s" if generated else "total_tok_s"] = number(
                p["output_tokens_per_s"] if generated else p["input_tokens_per_s"] + p["output_tokens_per_s"]
            )
        for name in ("ttft", "tpot"):
            if f"{name}_s" in p:
                row["statistic"] = "p50"
                row |= {f"{name}_ms_{k}": number(1e3 * p[f"{name}_s"][k]) for k in ("mean", "p50")}
        if kind == "at once" and in_flight >= 64:
            row["ttft_ms_p99"] = number(1e3 * p["ttft_s"]["p99"])
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines; points in it are not repeated")
    parser.add_argument("--work", type=Path, default=Path("/tmp/serve"), help="folder for configurations and logs")
    parser.add_argument("--limit-s", type=float, default=550, help="seconds of the whole run")
    parser.add_argument("--engine", choices=sorted(GROUPS), default="vllm")
    parser.add_argument("--only", nargs="*", help="servers to measure; all by default")
    parser.add_argument("--rows", type=Path, help="file to write the points to as rows, instead of measuring")
    args = parser.parse_args()
    if args.rows:
        rows = rows_of([json.loads(line) for line in args.out.read_text().splitlines()], args.out.stem)
        with args.rows.open("w", newline="") as file:
            writer = csv.DictWriter(file, sorted({name for row in rows for name in row}), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return
    args.work.mkdir(parents=True, exist_ok=True)
    write_models(args.work)
    from benchmarks.gpu.measure import Sampler

    rec, sampler = Recorder(args.out, time.monotonic() + args.limit_s), Sampler()
    for group in GROUPS[args.engine]:
        serve(rec, sampler, args.work, [s for s in group if not args.only or s[0] in args.only], args.engine)


if __name__ == "__main__":
    main()
