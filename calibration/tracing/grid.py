"""The grid of cases, drawn over models, methods, recipes, lengths and shards with a fixed seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from calibration.tracing.rows import Case, case_of, model_configs
from calibration.tracing.setups import fused_chunks
from calibration.tracing.shapes import shape_of

SEED, DRAWN = 15, 700
MOST_TOKENS = 131_072
WHOLE_LAYERS = 28  # deeper models are traced whole only if they are listed
# Models of every kind of block and every size; a repeated name is drawn more often.
MODELS = (
    *("Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-1.5B", "meta-llama/Llama-3.2-3B"),
    *("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "mistralai/Mistral-7B-v0.1"),
    *("Qwen/Qwen3-8B", "Qwen/Qwen2.5-7B", "meta-llama/Llama-2-13b-hf", "Qwen/Qwen2.5-14B", "Qwen/Qwen3-32B"),
    *("meta-llama/Llama-3.1-70B", "Qwen/Qwen2.5-72B", "meta-llama/Llama-3.1-405B", "01-ai/Yi-34B"),
    *("openai-community/gpt2", "openai-community/gpt2-xl", "facebook/opt-6.7b", "mosaicml/mpt-7b"),
    *(
        "microsoft/phi-1_5",
        "microsoft/phi-2",
        "EleutherAI/pythia-1.4b",
        "tiiuae/falcon-7b",
        "microsoft/Phi-3-mini-4k-instruct",
    ),
    *("google/gemma-2-9b", "deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V3"),
    *("mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen1.5-MoE-A2.7B", "Qwen/Qwen3-235B-A22B"),
)
SHARDED_LAYERS = 4  # enough layers that embedding and head are not gathered together with every layer
LENGTHS = (512, 1024, 2048, 4096, 4096, 8192, 16384, 32768, 65536, 131072)
SHARDS = (2, 4, 8, 8, 16, 64, 128, 512)


def draw_cases() -> Iterator[Case]:
    """Random cases from a fixed seed, without duplicates."""
    random, seen = Random(SEED), set()
    for _ in range(DRAWN):
        model = random.choice(MODELS)
        layers = _draw_layers(random, model)
        said = _draw_setup(random, model)
        if said["loss"] == "fused":
            said["loss_chunks"] = fused_chunks(shape_of(model_configs()[model]), said["sequence"] * said["batch"])
        case = case_of(model, max(layers, SHARDED_LAYERS) if layers and said["shards"] > 1 else layers, **said)
        if case not in seen:
            seen.add(case)
            yield case


def _draw_layers(random: Random, model: str) -> int:
    """Number of layers to trace; 0 for all."""
    shape = shape_of(model_configs()[model])
    if shape.layers <= WHOLE_LAYERS and random.random() < 0.1:
        return 0
    return min(shape.layers, shape.dense_layers + random.choice((2, 2, 3, 4)))


def _draw_setup(random: Random, model: str) -> dict[str, Any]:
    longest = shape_of(model_configs()[model]).positions or MOST_TOKENS
    method = random.choices(("full", "lora", "qlora"), (6, 3, 2))[0]
    sequence = min(longest, random.choice(LENGTHS))
    batch = random.choice([b for b in (1, 1, 2, 4, 8) if b * sequence <= MOST_TOKENS])
    said = {
        "sequence": sequence,
        "batch": batch,
        "method": method,
        "kernels": random.choice(("eager", "eager", "fused")),
        "recomputation": random.choice(
            ("none", "none", "operators", "attention", "every_second_layer", "full", "full")
        ),
        "loss": random.choice(("upcast", "upcast", "held", "shifted", "compiled", "chunked", "fused")),
        "accumulates": random.random() < 0.3,
        "activation_offload": random.random() < 0.05,
        "attention": "eager" if sequence <= 4096 and random.random() < 0.06 else "flash",
    }
    return said | (_draw_full_training(random) if method == "full" else _draw_adapters(random, method))


def _draw_full_training(random: Random) -> dict[str, Any]:
    weights = random.choices(("16bit", "sharded", "autocast", "master"), (6, 8, 3, 3))[0]
    optimizer = random.choices(("adamw", "adamw-8bit", "adafactor", "sgd", "lion"), (8, 2, 1, 1, 1))[0]
    shards = random.choice(SHARDS) if weights == "sharded" or random.random() < 0.2 else 1
    implementations = ["fused"]
    if optimizer == "adamw" and weights != "master":
        implementations += ["foreach", "foreach"]
    if shards == 1 and weights != "master":
        implementations += ["in_backward"]
    if optimizer in ("adamw", "adamw-8bit"):
        implementations += ["paged"]
    implementation = random.choice(implementations)
    said: dict[str, Any] = {
        "weights": weights,
        "optimizer": "adamw" if shards > 1 and optimizer == "adafactor" else optimizer,
        "optimizer_implementation": implementation,
        "shards": 1 if weights in {"master", "autocast"} else shards,
    }
    if weights == "master":
        said["gradients"] = random.choice(("as_weights", "32bit"))
    if implementation == "in_backward":
        said["accumulates"] = False
    return said


def _draw_adapters(random: Random, method: str) -> dict[str, Any]:
    precision = random.choice(("fp32", "autocast", "16bit"))
    return {
        "weights": "16bit",
        "optimizer": random.choice(("adamw", "adamw", "adamw-8bit")),
        "shards": random.choice(SHARDS) if method == "lora" and random.random() < 0.3 else 1,
        "adapter_rank": random.choice((8, 16, 64)),
        "adapter_targets": random.choice(("all-linear", "all-linear", "attention")),
        "adapter_precision": precision,
        "adapter_dropout": random.random() < 0.5,
        "kbit_widening": method == "qlora" and precision != "16bit" and random.random() < 0.7,
    }


def listed_cases() -> Iterator[Case]:
    """Whole models with common training setups."""
    mixed: dict[str, Any] = {"weights": "sharded", "kernels": "fused", "recomputation": "full"}
    for model in ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B"):
        for shards in (2, 8):
            yield case_of(model, sequence=4096, shards=shards, **mixed)
            yield case_of(model, sequence=8192, shards=shards, weights="sharded", recomputation="operators")
        for sequence in (2048, 32768):
            yield case_of(model, sequence=sequence, method="lora", recomputation="full", adapter_precision="autocast")
            yield case_of(model, sequence=sequence, method="qlora", recomputation="full", kbit_widening=True)
        yield case_of(model, sequence=2048, recomputation="full", optimizer="adamw-8bit")
        yield case_of(model, sequence=2048, recomputation="full", weights="master", gradients="32bit")
    for shards, sequence in ((8, 4096), (64, 8192), (512, 131072)):
        yield case_of("meta-llama/Llama-3.1-70B", sequence=sequence, shards=shards, **mixed)
    for sequence in (512, 4096):
        yield case_of(
            "meta-llama/Llama-3.1-70B",
            sequence=sequence,
            method="qlora",
            recomputation="full",
            adapter_precision="16bit",
        )
    yield case_of("meta-llama/Llama-3.1-405B", sequence=8192, shards=512, **mixed)
    yield case_of("Qwen/Qwen3-30B-A3B", sequence=4096, shards=8, **mixed)
    yield case_of("mistralai/Mixtral-8x7B-v0.1", sequence=4096, shards=64, **mixed)


def all_cases() -> Iterator[Case]:
    """Listed and random cases."""
    yield from listed_cases()
    yield from draw_cases()
