"""Measures one GPU: matrix products, copies, attention, whole forward passes, training steps and power.

Needs PyTorch and transformers (peft if installed), no network and no checkpoint: weights are random. Run it on an idle
GPU with unchanged clocks:

    python benchmarks/gpu/measure.py --out points.jsonl --limit-s 400
    python benchmarks/gpu/measure.py --out points.jsonl --only training --repeat 2   # again, to show the noise
    python benchmarks/gpu/measure.py --out tiny.jsonl --tiny                         # the same code on a CPU

Each point is one JSON line, written when it is done. A second run with the same file skips the points that the file
has, so a run that was cut off continues. Sections and points are in order of value, and each section has a time budget.
The script refuses to measure when the SM clock under a copy is below 95 % of its maximum, or when the anchor, a matrix
product of 8192 x 8192 x 8192 in bf16, is more than 10 % away from the known rate of the card. It changes no setting of
the card. `benchmarks/gpu/compare.py` compares the points with Headroom's predictions.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
# Rate of the anchor on an H100 SXM with random operands, in FLOP/s; the tolerance covers other samples of the card.
ANCHOR_FLOPS_PER_S = 790e12
ANCHOR_TOLERANCE = 0.10
LEAST_CLOCK_SHARE = 0.95
L2_BYTES = 50e6

LLAMA_8B = {
    "name": "meta-llama/Llama-3.1-8B",
    "kind": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
LLAMA_1B = LLAMA_8B | {
    "name": "meta-llama/Llama-3.2-1B",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "head_dim": 64,
    "tie_word_embeddings": True,
}
QWEN_17B = {
    "name": "Qwen/Qwen3-1.7B",
    "kind": "qwen3",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
}
TINY = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "max_position_embeddings": 131072,
}

# Linear layers as (output, input) features.
LAYERS = {
    "8b qkv": (6144, 4096),
    "8b out": (4096, 4096),
    "8b gate_up": (28672, 4096),
    "8b down": (4096, 14336),
    "70b/8 qkv": (1280, 8192),
    "70b/8 out": (8192, 1024),
    "70b/8 gate_up": (7168, 8192),
    "70b/8 down": (8192, 3584),
    "32b qkv": (10240, 5120),
    "32b gate_up": (51200, 5120),
    "32b down": (5120, 25600),
}
TOKENS = (1, 16, 64, 256, 1024, 8192)


class Sampler:
    """Reads power, clocks and memory of the GPU; without NVML every reading is None."""

    def __init__(self) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
            self.nvml: Any = pynvml
            self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:
            self.nvml = None

    def max_clock_mhz(self) -> float | None:
        return self.nvml and self.nvml.nvmlDeviceGetMaxClockInfo(self.handle, self.nvml.NVML_CLOCK_SM)

    def used_bytes(self) -> float | None:
        return self.nvml and self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used

    def energy_mj(self) -> float:
        """Millijoules since the driver was loaded; NaN on cards that do not count them."""
        try:
            return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle))
        except Exception:
            return math.nan

    def describe(self) -> dict[str, Any]:
        if not self.nvml:
            return {}
        n, h = self.nvml, self.handle
        return {
            "gpu": n.nvmlDeviceGetName(h),
            "driver": n.nvmlSystemGetDriverVersion(),
            "power_limit_w": n.nvmlDeviceGetPowerManagementLimit(h) / 1e3,
            "max_sm_mhz": self.max_clock_mhz(),
            "memory_total_bytes": n.nvmlDeviceGetMemoryInfo(h).total,
        }

    @contextmanager
    def watch(self, found: dict[str, Any]) -> Iterator[None]:
        """Adds mean power (energy counter over the time, at least 0.5 s), median SM clock and temperature."""
        if not self.nvml:
            yield
            return
        n, h = self.nvml, self.handle
        clocks: list[float] = []
        powers: list[float] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.wait(0.05):
                clocks.append(n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM))
                powers.append(n.nvmlDeviceGetPowerUsage(h) / 1e3)

        thread = threading.Thread(target=read, daemon=True)
        start_s, start_mj = time.perf_counter(), self.energy_mj()
        thread.start()
        try:
            yield
        finally:
            took_s, used_mj = time.perf_counter() - start_s, self.energy_mj() - start_mj
            stop.set()
            thread.join()
            if took_s >= 0.5:
                found["power_w"] = None if math.isnan(used_mj) else used_mj / 1e3 / took_s
                found["power_read_w"] = statistics.median(powers) if powers else None
                found["sm_mhz"] = statistics.median(clocks) if clocks else None
                found["celsius"] = n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU)


def synchronize() -> None:
    if CUDA:
        torch.cuda.synchronize()


def free_memory() -> None:
    gc.collect()
    if CUDA:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def time_calls(call: Callable[[], Any], *, least: int = 3, most: int = 20, budget_s: float = 1.0) -> dict[str, float]:
    """Median, 10th and 90th percentile of the seconds of a call, by the host's clock around a synchronized call."""
    call()
    synchronize()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < least or (len(times) < most and time.perf_counter() - begin < budget_s):
        start = time.perf_counter()
        call()
        synchronize()
        times.append(time.perf_counter() - start)
    times.sort()
    return {
        "seconds": statistics.median(times),
        "seconds_p10": times[len(times) // 10],
        "seconds_p90": times[min(len(times) - 1, 9 * len(times) // 10)],
        "repeats": len(times),
    }


def capture(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call as a CUDA graph; on a CPU the call itself."""
    if not CUDA:
        return call
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def time_kernels(calls: Sequence[Callable[[], Any]], *, budget_s: float = 0.15) -> dict[str, float]:
    """Seconds per call of a graph of these calls, by device events; calls on other operands in turn defeat the L2."""

    def run() -> None:
        for call in calls:
            call()

    replay = capture(run)
    replay()
    synchronize()
    if not CUDA:
        return {k: v / len(calls) for k, v in time_calls(run, most=3).items() if k.startswith("seconds")}
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 5 or (len(times) < 50 and time.perf_counter() - begin < budget_s):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / len(calls))
    times.sort()
    return {"seconds": statistics.median(times), "seconds_p10": times[len(times) // 10], "repeats": len(times)}


# Kernels alone.


def gemm(tokens: int, out: int, inner: int, dtype: str) -> dict[str, float]:
    element = 2 if dtype == "bf16" else 1
    copies = max(1, min(24, math.ceil(4 * L2_BYTES / (out * inner * element)))) if CUDA else 2
    x = torch.randn(tokens, inner, device=DEVICE, dtype=torch.bfloat16)
    weights = [torch.randn(out, inner, device=DEVICE, dtype=torch.bfloat16) for _ in range(copies)]
    if dtype == "bf16":
        calls = [lambda w=w: x @ w.t() for w in weights]
    else:
        one = torch.ones((), device=DEVICE)
        a = x.to(torch.float8_e4m3fn)
        eights = [w.to(torch.float8_e4m3fn) for w in weights]
        del weights
        calls = [
            lambda w=w: torch._scaled_mm(a, w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
            for w in eights
        ]
    found = time_kernels(calls)
    flops, moved = 2.0 * tokens * out * inner, element * (out + tokens) * inner + 2.0 * tokens * out
    return found | {"flops": flops, "bytes": moved}


def copy(size: float) -> dict[str, float]:
    source = torch.empty(int(size), dtype=torch.uint8, device=DEVICE)
    source.random_(0, 255)
    target = torch.empty_like(source)
    return time_kernels([lambda: target.copy_(source)] * 4) | {"flops": 0.0, "bytes": 2.0 * int(size)}


@contextmanager
def backend(name: str = "flash") -> Iterator[None]:
    """Restricts SDPA to PyTorch's FlashAttention or to cuDNN; `default` leaves the choice to PyTorch."""
    if not CUDA or name == "default":
        yield
        return
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION if name == "flash" else SDPBackend.CUDNN_ATTENTION]):
        yield


def attention(
    batch: int, queries: int, context: int, kernel: str = "flash", heads: int = 32, kv: int = 8, dim: int = 128
) -> dict[str, float]:
    """Attention of one layer: a whole causal prompt (queries = context), or one new token (queries = 1)."""
    cache = 2.0 * batch * context * kv * dim * 2
    copies = max(1, min(24, math.ceil(4 * L2_BYTES / cache))) if CUDA else 2
    make = lambda h, t: torch.randn(batch, h, t, dim, device=DEVICE, dtype=torch.bfloat16)  # noqa: E731
    q = make(heads, queries)
    pairs = [(make(kv, context), make(kv, context)) for _ in range(copies if queries == 1 else 1)]
    causal = queries > 1
    with backend(kernel):
        found = time_kernels(
            [
                lambda k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
                for k, v in pairs
            ]
        )
    flops = 4.0 * batch * heads * dim * queries * context * (0.5 if causal else 1)
    return found | {"flops": flops, "bytes": cache + 2 * 2.0 * batch * heads * queries * dim}


# Whole models.


def make_config(shape: dict[str, Any]) -> Any:
    from transformers import LlamaConfig, Qwen3Config

    fields = {k: v for k, v in shape.items() if k not in ("name", "kind")}
    return (LlamaConfig if shape["kind"] == "llama" else Qwen3Config)(**fields)


def make_model(shape: dict[str, Any]) -> Any:
    """The model of transformers with random weights, in bf16 with SDPA attention."""
    from transformers import AutoModelForCausalLM

    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(make_config(shape), dtype=torch.bfloat16, attn_implementation="sdpa")
    return model.to(DEVICE)


class Decoder:
    """A plain decoder with fused projections and a cache of fixed size, so that a step can be a CUDA graph."""

    def __init__(self, shape: dict[str, Any], batch: int, length: int) -> None:
        self.s, self.batch, self.length = shape, batch, length
        h, d = shape["hidden_size"], shape["head_dim"]
        self.heads, self.kv = shape["num_attention_heads"], shape["num_key_value_heads"]
        make = lambda *size: torch.randn(*size, device=DEVICE, dtype=torch.bfloat16) * 0.02  # noqa: E731
        one = lambda n: torch.ones(n, device=DEVICE, dtype=torch.bfloat16)  # noqa: E731
        self.embed = make(shape["vocab_size"], h)
        self.head = self.embed if shape["tie_word_embeddings"] else make(shape["vocab_size"], h)
        self.last = one(h)
        self.layers = [
            {
                "in": one(h),
                "post": one(h),
                "qn": one(d),
                "kn": one(d),
                "qkv": make((self.heads + 2 * self.kv) * d, h),
                "out": make(h, self.heads * d),
                "gate_up": make(2 * shape["intermediate_size"], h),
                "down": make(h, shape["intermediate_size"]),
            }
            for _ in range(shape["num_hidden_layers"])
        ]
        angle = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, d, 2).float() / d))
        angle = torch.cat((angle, angle), -1).to(DEVICE)
        self.cos, self.sin = angle.cos().bfloat16(), angle.sin().bfloat16()
        self.cache: list[tuple[torch.Tensor, torch.Tensor]] = []

    def load(self, model: Any) -> None:
        """Takes the weights of a model of transformers."""
        w = model.state_dict()
        self.embed = w["model.embed_tokens.weight"]
        self.head = self.embed if self.s["tie_word_embeddings"] else w["lm_head.weight"]
        self.last = w["model.norm.weight"]
        for i, layer in enumerate(self.layers):
            at = f"model.layers.{i}."
            layer["in"], layer["post"] = w[at + "input_layernorm.weight"], w[at + "post_attention_layernorm.weight"]
            layer["qkv"] = torch.cat([w[at + f"self_attn.{n}_proj.weight"] for n in "qkv"])
            layer["out"], layer["down"] = w[at + "self_attn.o_proj.weight"], w[at + "mlp.down_proj.weight"]
            layer["gate_up"] = torch.cat([w[at + f"mlp.{n}_proj.weight"] for n in ("gate", "up")])
            if self.s["kind"] == "qwen3":
                layer["qn"], layer["kn"] = w[at + "self_attn.q_norm.weight"], w[at + "self_attn.k_norm.weight"]

    def resize(self, batch: int, length: int) -> None:
        """A cache of random keys and values."""
        self.batch, self.length = batch, length
        self.cache = []
        free_memory()
        size = (batch, self.kv, length, self.s["head_dim"])
        self.cache = [
            (
                torch.randn(size, device=DEVICE, dtype=torch.bfloat16),
                torch.randn(size, device=DEVICE, dtype=torch.bfloat16),
            )
            for _ in self.layers
        ]

    def rotate(self, x: torch.Tensor, start: int) -> torch.Tensor:
        t, half = x.shape[2], x.shape[3] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * self.cos[start : start + t] + turned * self.sin[start : start + t]

    @torch.no_grad()
    def forward(self, ids: torch.Tensor, start: int) -> torch.Tensor:
        """Logits of the last token; `ids` are appended at `start`: a prompt at 0, or one token per sequence."""
        b, t = ids.shape
        d, eps = self.s["head_dim"], 1e-6
        x = F.embedding(ids, self.embed)
        for layer, (keys, values) in zip(self.layers, self.cache, strict=True):
            y = F.rms_norm(x, x.shape[-1:], layer["in"], eps)
            qkv = (y @ layer["qkv"].t()).view(b, t, self.heads + 2 * self.kv, d).transpose(1, 2)
            q, k, v = qkv.split((self.heads, self.kv, self.kv), 1)
            if self.s["kind"] == "qwen3":
                q, k = F.rms_norm(q, (d,), layer["qn"], eps), F.rms_norm(k, (d,), layer["kn"], eps)
            q, k = self.rotate(q, start), self.rotate(k, start)
            keys[:, :, start : start + t] = k
            values[:, :, start : start + t] = v
            with backend():
                a = F.scaled_dot_product_attention(
                    q, keys[:, :, : start + t], values[:, :, : start + t], is_causal=t > 1, enable_gqa=True
                )
            x = x + a.transpose(1, 2).reshape(b, t, -1) @ layer["out"].t()
            y = F.rms_norm(x, x.shape[-1:], layer["post"], eps)
            gate, up = (y @ layer["gate_up"].t()).chunk(2, -1)
            x = x + (F.silu(gate) * up) @ layer["down"].t()
        return F.rms_norm(x[:, -1], x.shape[-1:], self.last, eps) @ self.head.t()


def random_ids(shape: dict[str, Any], batch: int, tokens: int) -> torch.Tensor:
    return torch.randint(9, shape["vocab_size"] - 1, (batch, tokens), device=DEVICE)


@torch.no_grad()
def prefill_transformers(model: Any, shape: dict[str, Any], batch: int, tokens: int) -> dict[str, float]:
    ids = random_ids(shape, batch, tokens)
    return time_calls(lambda: model(ids, use_cache=True, logits_to_keep=1), most=10)


@torch.no_grad()
def decode_transformers(model: Any, shape: dict[str, Any], batch: int, context: int) -> dict[str, float]:
    """Steps of one token per sequence over a dynamic cache, as `generate` runs them."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    size = (batch, shape["num_key_value_heads"], context, shape["head_dim"])
    for i in range(shape["num_hidden_layers"]):
        cache.update(
            torch.randn(size, device=DEVICE, dtype=torch.bfloat16),
            torch.randn(size, device=DEVICE, dtype=torch.bfloat16),
            i,
        )
    ids = random_ids(shape, batch, 1)
    found = time_calls(lambda: model(ids, past_key_values=cache, use_cache=True), most=20, budget_s=0.8)
    return found | {"final_context": cache.get_seq_length()}


@torch.no_grad()
def step_by_cache(model: Any, shape: dict[str, Any], kind: str, length: int, profile: Path | None) -> dict[str, float]:
    """A step of one token without a cache, with a static one, or with a dynamic one that is cut back to one size."""
    from transformers import DynamicCache, StaticCache

    ids = random_ids(shape, 1, 1)
    prompt = random_ids(shape, 1, length)
    if kind == "none":
        call = lambda: model(ids, use_cache=False)  # noqa: E731
    elif kind == "static":
        cache = StaticCache(config=model.config, max_cache_len=8 * length)
        model(prompt, past_key_values=cache, use_cache=True)
        call = lambda: model(ids, past_key_values=cache, use_cache=True)  # noqa: E731
    else:
        grown = DynamicCache(config=model.config)
        model(prompt, past_key_values=grown, use_cache=True)

        def call() -> None:
            model(ids, past_key_values=grown, use_cache=True)
            if kind == "dynamic, cut":
                grown.crop(-1)

    found = time_calls(call, most=20)
    if profile:
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as record

        with record(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if CUDA else [])]) as recorded:
            for _ in range(3):
                call()
            synchronize()
        with profile.open("a") as file:
            for order in ("self_cpu_time_total", "self_device_time_total"):
                file.write(
                    f"{kind}, by {order}, 3 steps\n{recorded.key_averages().table(sort_by=order, row_limit=25)}\n"
                )
    return found


def measure_host(rec: Recorder, shape: dict[str, Any], *, tiny: bool) -> None:
    """Where the host's time of a decode step of transformers goes: caches, and a profile of each."""
    model = make_model(shape)
    model.eval()
    profile = rec.path.with_suffix(".profile.txt")
    for kind in ("none", "dynamic", "dynamic, cut", "static"):
        rec.point(
            f"step transformers {shape['name']}, cache: {kind}",
            {"model": shape["name"], "stack": "transformers", "cache": kind, "batch": 1, "context": 512},
            lambda kind=kind: step_by_cache(model, shape, kind, 16 if tiny else 512, profile),
        )


def generate_transformers(model: Any, shape: dict[str, Any], batch: int, prompt: int, output: int) -> dict[str, float]:
    ids = random_ids(shape, batch, prompt)
    mask = torch.ones_like(ids)
    run = lambda n: model.generate(  # noqa: E731
        ids, attention_mask=mask, max_new_tokens=n, min_new_tokens=n, do_sample=False, pad_token_id=0
    )
    run(4)
    synchronize()
    start = time.perf_counter()
    run(output)
    synchronize()
    return {"seconds": time.perf_counter() - start, "repeats": 1}


def pass_graph(decoder: Decoder, batch: int, tokens: int, context: int, *, graph: bool) -> dict[str, float]:
    """A prompt (tokens = context) or a decode step (tokens = 1) of the plain decoder, with or without a graph."""
    if (decoder.batch, decoder.length) != (batch, context) or not decoder.cache:
        decoder.resize(batch, context)
    ids = random_ids(decoder.s, batch, tokens)
    call = lambda: decoder.forward(ids, context - tokens)  # noqa: E731
    return time_calls(capture(call) if graph else call, most=20)


# Training.


class Adapter(torch.nn.Module):
    """LoRA around a linear layer, as PEFT adds it: adapters in 32 bit, computed under autocast."""

    def __init__(self, base: torch.nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.a = torch.nn.Linear(base.in_features, rank, bias=False, device=base.weight.device, dtype=torch.float32)
        self.b = torch.nn.Linear(rank, base.out_features, bias=False, device=base.weight.device, dtype=torch.float32)
        torch.nn.init.zeros_(self.b.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.base(x) + self.b(self.a(x)) * 2.0
        return y


def add_adapters(model: Any, rank: int) -> tuple[Any, str]:
    """The model with adapters on all linear layers but the head, and what made them."""
    try:
        import peft
    except ImportError:
        for p in model.parameters():
            p.requires_grad_(False)
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, torch.nn.Linear) and name != "lm_head":
                    setattr(module, name, Adapter(child, rank))
        return model, "by hand"
    settings = peft.LoraConfig(r=rank, lora_alpha=32, target_modules="all-linear")
    return peft.get_peft_model(model, settings), f"peft {peft.__version__}"


def make_trained(shape: dict[str, Any], method: str) -> tuple[Any, str]:
    model = make_model(shape)
    model.config.use_cache = False
    kind = "none"
    if method == "lora":
        model, kind = add_adapters(model, 16)
    model.train()
    return model, kind


def train(
    model: Any, shape: dict[str, Any], micro: int, length: int, sampler: Sampler, *, steps: int
) -> dict[str, Any]:
    """Training steps as transformers' Trainer runs them in bf16: autocast, fused AdamW, clipped gradients."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=CUDA)
    ids = random_ids(shape, micro, length)
    found: dict[str, Any] = {}

    def step() -> None:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    try:
        for _ in range(2):
            step()
        synchronize()
        if CUDA:
            torch.cuda.reset_peak_memory_stats()
        times: list[float] = []
        with sampler.watch(found):
            for _ in range(steps):
                start = time.perf_counter()
                step()
                synchronize()
                times.append(time.perf_counter() - start)
        found["seconds"] = statistics.median(times)
        found["seconds_p10"], found["seconds_p90"] = (
            sorted(times)[len(times) // 10],
            sorted(times)[9 * len(times) // 10],
        )
        found["repeats"] = steps
    except torch.cuda.OutOfMemoryError:
        found["out_of_memory"] = True
    if CUDA:
        found["allocated_bytes"] = torch.cuda.max_memory_allocated()
        found["reserved_bytes"] = torch.cuda.max_memory_reserved()
        used = sampler.used_bytes()
        if used is not None:
            found["non_torch_bytes"] = used - torch.cuda.memory_reserved()
    found["trained_parameters"] = sum(p.numel() for p in trained)
    optimizer.zero_grad(set_to_none=True)
    return found


# The run.


class Stop(Exception):
    """The time budget is spent."""


class Recorder:
    """Writes points as JSON lines, skips those that are written, and stops at the deadline of a section or the run."""

    def __init__(self, path: Path, limit_s: float, repeat: int) -> None:
        self.path, self.end = path, time.monotonic() + limit_s
        self.section_end, self.section, self.repeat = self.end, "", repeat
        self.done = set()
        if path.exists():
            lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
            self.done = {(p["key"], p["repeat"]) for p in lines if "error" not in p}

    def write(self, point: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(point) + "\n")
        shown = {k: round(v, 6) if isinstance(v, float) else v for k, v in point.items() if k in SHOWN}
        print(point["key"], shown, flush=True)

    def needed(self, key: str) -> bool:
        if time.monotonic() > min(self.end, self.section_end):
            print(f"-- {self.section}: time budget spent before {key}", flush=True)
            raise Stop
        return (key, self.repeat) not in self.done

    def point(self, key: str, fields: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> None:
        if not self.needed(key):
            return
        base = {"key": key, "section": self.section, "repeat": self.repeat, "at_s": round(time.time(), 1), **fields}
        try:
            self.write(base | measure())
        except torch.cuda.OutOfMemoryError:
            self.write(base | {"out_of_memory": True})
        except Stop:
            raise
        except Exception as error:
            self.write(base | {"error": f"{type(error).__name__}: {error}"[:400]})
        free_memory()


SHOWN = (
    "seconds",
    "power_w",
    "sm_mhz",
    "allocated_bytes",
    "reserved_bytes",
    "non_torch_bytes",
    "out_of_memory",
    "error",
)


def check_anchors(rec: Recorder, sampler: Sampler, *, tiny: bool, accept: bool) -> None:
    """Measures copy and matrix product, and exits if the card is slower than it should be."""
    size = 64 if tiny else 8192
    found: dict[str, Any] = {}
    big = torch.randn(1 << (12 if tiny else 29), device=DEVICE)
    other = torch.empty_like(big)
    with sampler.watch(found):
        end = time.monotonic() + (0.1 if tiny else 1.5)
        while time.monotonic() < end:
            other.copy_(big)
            synchronize()
    clock, most = found.get("sm_mhz"), sampler.max_clock_mhz()
    del big, other
    rec.write({"key": "clock under copy", "section": "anchor", "repeat": rec.repeat, "max_sm_mhz": most, **found})
    point = gemm(size, size, size, "bf16")
    rate = point["flops"] / point["seconds"]
    rec.write({"key": "anchor bf16", "section": "anchor", "repeat": rec.repeat, **point})
    if tiny or accept:
        return
    if clock and most and clock < LEAST_CLOCK_SHARE * most:
        sys.exit(f"refused: SM clock {clock} MHz of {most} MHz")
    if abs(rate / ANCHOR_FLOPS_PER_S - 1) > ANCHOR_TOLERANCE:
        sys.exit(f"refused: the anchor ran at {rate / 1e12:.0f} TFLOP/s")


def measure_idle(rec: Recorder, sampler: Sampler, *, tiny: bool) -> None:
    def idle() -> dict[str, Any]:
        found: dict[str, Any] = {}
        with sampler.watch(found):
            time.sleep(0.1 if tiny else 4)
        return found

    if CUDA:
        torch.zeros(1, device=DEVICE)
    rec.point("power idle", {"power": "idle"}, idle)


PROMPTS = (128, 512, 2048, 8192, 32768)
DECODES = [
    (1, 512),
    (4, 512),
    (16, 512),
    (64, 512),
    (256, 512),
    (1, 4096),
    (4, 4096),
    (16, 4096),
    (64, 4096),
    (1, 32768),
    (4, 32768),
    (8, 32768),
]


def measure_transformers(rec: Recorder, shape: dict[str, Any], *, tiny: bool) -> None:
    """Whole passes of transformers' model, launched by the host kernel by kernel."""
    prompts, decodes = (PROMPTS, DECODES) if not tiny else ((16,), [(2, 16)])
    model = make_model(shape)
    model.eval()
    base = {"model": shape["name"], "stack": "transformers"}
    for tokens in prompts:
        rec.point(
            f"prefill transformers {shape['name']} 1x{tokens}",
            base | {"phase": "prefill", "batch": 1, "context": tokens},
            lambda tokens=tokens: prefill_transformers(model, shape, 1, tokens),
        )
    for batch, context in decodes:
        rec.point(
            f"decode transformers {shape['name']} {batch}x{context}",
            base | {"phase": "decode", "batch": batch, "context": context},
            lambda batch=batch, context=context: decode_transformers(model, shape, batch, context),
        )
    for batch in (1, 8, 32) if not tiny else (1,):
        n, o = (512, 64) if not tiny else (8, 4)
        rec.point(
            f"generate transformers {shape['name']} {batch}x{n}+{o}",
            base | {"phase": "generate", "batch": batch, "context": n, "output": o},
            lambda batch=batch, n=n, o=o: generate_transformers(model, shape, batch, n, o),
        )


def measure_graphs(rec: Recorder, shape: dict[str, Any], *, tiny: bool) -> None:
    """Whole passes of the plain decoder, as a CUDA graph and (some) launched by the host."""
    prompts, decodes = (PROMPTS, DECODES) if not tiny else ((16,), [(2, 16)])
    decoder = Decoder(shape, 1, max((*prompts, *(c for _, c in decodes))))
    base = {"model": shape["name"]}
    for batch, context in decodes:
        for graph in (True, False) if context == 512 or tiny else (True,):
            stack = "plain, graph" if graph else "plain, eager"
            rec.point(
                f"decode {stack} {shape['name']} {batch}x{context}",
                base | {"stack": stack, "phase": "decode", "batch": batch, "context": context},
                lambda b=batch, c=context, g=graph: pass_graph(decoder, b, 1, c, graph=g),
            )
    for tokens in prompts:
        rec.point(
            f"prefill plain, graph {shape['name']} 1x{tokens}",
            base | {"stack": "plain, graph", "phase": "prefill", "batch": 1, "context": tokens},
            lambda tokens=tokens: pass_graph(decoder, 1, tokens, tokens, graph=True),
        )


def measure_power(rec: Recorder, sampler: Sampler, shape: dict[str, Any], *, tiny: bool) -> None:
    """Power of the plain decoder in a loop of some seconds: decode at batch 1 and 64, prefill of 8,192 tokens."""
    cases = [("decode", 1, 1, 4096), ("decode", 64, 1, 4096), ("prefill", 1, 8192, 8192)]
    if tiny:
        cases = [("decode", 1, 1, 16)]
    decoder = Decoder(shape, 1, max(c for *_, c in cases))

    def hold(batch: int, tokens: int, context: int) -> dict[str, Any]:
        decoder.resize(batch, context)
        ids = random_ids(decoder.s, batch, tokens)
        replay = capture(lambda: decoder.forward(ids, context - tokens))
        found: dict[str, Any] = {}
        end = time.monotonic() + (0.05 if tiny else 1.0)
        while time.monotonic() < end:
            replay()
            synchronize()
        count, start = 0, time.perf_counter()
        with sampler.watch(found):
            while time.perf_counter() - start < (0.1 if tiny else 4.0):
                replay()
                synchronize()
                count += 1
        return found | {"seconds": (time.perf_counter() - start) / count, "repeats": count}

    for phase, batch, tokens, context in cases:
        rec.point(
            f"power {phase} {shape['name']} {batch}x{context}",
            {"model": shape["name"], "stack": "plain, graph", "power": phase, "batch": batch, "context": context},
            lambda b=batch, t=tokens, c=context: hold(b, t, c),
        )


# (micro-batch, sequence length, whether each layer is recomputed), in order of value.
FULL = [
    (4, 2048, False),
    (1, 2048, False),
    (8, 2048, True),
    (2, 4096, False),
    (4, 4096, True),
    (1, 4096, False),
    (2, 2048, False),
    (1, 2048, True),
    (16, 2048, True),
    (8, 2048, False),
]
LORA = [
    (2, 2048, False),
    (4, 2048, True),
    (1, 4096, False),
    (2, 4096, True),
    (1, 2048, False),
    (1, 2048, True),
    (4, 2048, False),
    (8, 2048, True),
    (2, 4096, False),
]


def measure_training(
    rec: Recorder,
    sampler: Sampler,
    shape: dict[str, Any],
    method: str,
    cases: list[tuple[int, int, bool]],
    *,
    tiny: bool,
) -> None:
    if all((train_key(shape, method, *case), rec.repeat) in rec.done for case in cases):
        return
    model, adapters = make_trained(shape, method)
    base = {"model": shape["name"], "method": method, "stack": "transformers", "adapters": adapters}
    for micro, length, recomputed in cases:
        if recomputed:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        else:
            model.gradient_checkpointing_disable()
        steps = 2 if tiny else 10
        rec.point(
            train_key(shape, method, micro, length, recomputed),
            base | {"phase": "training", "micro_batch": micro, "sequence": length, "recomputed": recomputed},
            lambda m=micro, n=length, s=steps: train(model, shape, m, n, sampler, steps=s),
        )


def train_key(shape: dict[str, Any], method: str, micro: int, length: int, recomputed: bool) -> str:
    return f"train {method} {shape['name']} {micro}x{length}{' recomputed' if recomputed else ''}"


def measure_gemms(rec: Recorder, *, tiny: bool) -> None:
    layers = LAYERS if not tiny else {"tiny": (32, 64)}
    for dtype in ("bf16", "fp8") if CUDA else ("bf16",):
        for tokens in TOKENS if not tiny else (16,):
            for name, (out, inner) in layers.items():
                rec.point(
                    f"gemm {dtype} {name} {tokens}",
                    {"dtype": dtype, "layer": name, "m": tokens, "n": out, "k": inner},
                    lambda t=tokens, o=out, i=inner, d=dtype: gemm(t, o, i, d),
                )


def measure_attention(rec: Recorder, *, tiny: bool) -> None:
    cases = [(1, n, n) for n in (2048, 8192, 32768, 102400)]
    cases += [(b, 1, c) for c in (4096, 32768) for b in (1, 4, 16, 64)] + [(1, 1, 131072), (4, 1, 131072)]
    measured = [(*case, "flash") for case in ([(1, 16, 16), (2, 1, 16)] if tiny else cases)]
    if not tiny:
        measured += [(1, n, n, kernel) for n in (2048, 8192, 32768, 102400) for kernel in ("cudnn", "default")]
        measured += [(16, 1, 4096, kernel) for kernel in ("cudnn", "default")]
    for batch, queries, context, kernel in measured:
        phase = "prefill" if queries > 1 else "decode"
        rec.point(
            f"attention {phase} {'' if kernel == 'flash' else kernel + ' '}{batch}x{context}",
            {"phase": phase, "batch": batch, "context": context, "kernel": kernel},
            lambda b=batch, q=queries, c=context, k=kernel: attention(b, q, c, k),
        )


def measure_copies(rec: Recorder, *, tiny: bool) -> None:
    for size in (1e5,) if tiny else (1e8, 1e9, 8e9):
        rec.point(f"copy {size:.0e}", {"size_bytes": size}, lambda s=size: copy(s))


def check_decoder() -> dict[str, Any]:
    """Relative error of the plain decoder's logits to those of transformers, for a prompt and one more token."""
    shape = TINY | {"name": "tiny", "kind": "qwen3", "tie_word_embeddings": True}
    model = make_model(shape)
    model.eval()
    decoder = Decoder(shape, 2, 17)
    decoder.load(model)
    decoder.resize(2, 17)
    ids = random_ids(shape, 2, 17)
    with torch.no_grad():
        expected = model(ids).logits[:, -1].float()
    decoder.forward(ids[:, :16], 0)
    got = decoder.forward(ids[:, 16:], 16).float()
    error = ((got - expected).norm() / expected.norm()).item()
    if not error < 0.05:
        raise RuntimeError(f"the plain decoder differs from transformers by {error:.3f}")
    return {"relative_error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines; points in it are not repeated")
    parser.add_argument("--limit-s", type=float, default=400, help="seconds of the whole run")
    parser.add_argument("--only", nargs="*", help="sections to run; all by default")
    parser.add_argument("--repeat", type=int, default=1, help="number of this run of the same points")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, to try the script without a GPU")
    parser.add_argument("--accept", action="store_true", help="measure a card that is slower than expected")
    args = parser.parse_args()
    tiny, sampler, rec = args.tiny, Sampler(), Recorder(args.out, args.limit_s, args.repeat)
    eight, one, qwen = (s | TINY if tiny else s for s in (LLAMA_8B, LLAMA_1B, QWEN_17B))
    full, lora = ([(1, 16, False), (1, 16, True)],) * 2 if tiny else (FULL, LORA)
    import transformers

    torch.manual_seed(0)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "cuda": torch.version.cuda}
    rec.write({"key": "machine", "section": "machine", "repeat": args.repeat, **versions, **sampler.describe()})
    if not args.only or "idle" in args.only:
        rec.section = "idle"
        measure_idle(rec, sampler, tiny=tiny)
    check_anchors(rec, sampler, tiny=tiny, accept=args.accept)
    sections: list[tuple[str, float, Callable[[], None]]] = [
        ("check", 20, lambda: rec.point("check of the plain decoder", {}, check_decoder)),
        ("eager", 70, lambda: measure_transformers(rec, eight, tiny=tiny)),
        ("host", 40, lambda: measure_host(rec, eight, tiny=tiny)),
        ("training", 60, lambda: measure_training(rec, sampler, one, "full", full, tiny=tiny)),
        ("adapters", 80, lambda: measure_training(rec, sampler, eight, "lora", lora, tiny=tiny)),
        ("graphs", 50, lambda: measure_graphs(rec, eight, tiny=tiny)),
        ("copies", 10, lambda: measure_copies(rec, tiny=tiny)),
        ("attention", 20, lambda: measure_attention(rec, tiny=tiny)),
        ("gemms", 60, lambda: measure_gemms(rec, tiny=tiny)),
        ("eager, small", 45, lambda: measure_transformers(rec, qwen, tiny=tiny)),
        ("graphs, small", 35, lambda: measure_graphs(rec, qwen, tiny=tiny)),
        ("power", 30, lambda: measure_power(rec, sampler, eight, tiny=tiny)),
    ]
    for name, budget_s, run in sections:
        if args.only and name not in args.only:
            continue
        begin = time.monotonic()
        rec.section, rec.section_end = name, begin + budget_s
        try:
            run()
        except Stop:
            pass
        except Exception as error:
            print(f"-- {name} failed: {type(error).__name__}: {error}", flush=True)
        free_memory()
        print(f"-- {name}: {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
