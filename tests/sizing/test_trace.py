"""Every step of a trace can be recomputed from what it shows."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from app.catalog.snapshot import SnapshotStore
from app.sizing.estimate import estimate
from app.sizing.question import Deployment, Drafting, Question, Speculative
from app.sizing.recommend import recommend
from app.sizing.result import Step
from app.sizing.snapshot import Market
from app.sizing.workload import InferenceWorkload, Load, Method, Slo, TrainingWorkload
from tests.examples import CHAT, LLAMA_70B, PRETRAIN

DRAFTED = Speculative(Drafting.EAGLE, 3, 0.7)

BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
}


def evaluate(formula: str, inputs: Mapping[str, float]) -> float:
    """Arithmetic over the inputs, and nothing else."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.Name):
            return inputs[node.id]
        if isinstance(node, ast.BinOp):
            return BINARY[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return FUNCTIONS[node.func.id](*(value(a) for a in node.args))
        raise AssertionError(ast.dump(node))

    return value(ast.parse(formula, mode="eval").body)


def all_steps(market: Market, workload: InferenceWorkload | TrainingWorkload) -> list[Step]:
    return [s for r in recommend(Question(workload, trace=True), market).recommendations for s in r.estimate.trace]


def check(steps: list[Step], *named: str) -> None:
    assert set(named) <= {s.name for s in steps}
    for s in steps:
        assert evaluate(s.formula, s.inputs) == pytest.approx(s.value, rel=1e-6), s.name
        assert s.source


def test_steps_of_a_service(market: Market) -> None:
    for workload in (CHAT, replace(CHAT, model=LLAMA_70B), replace(CHAT, load=Load.CLOSED, in_flight=32.0)):
        check(
            all_steps(market, workload),
            "weights_bytes_per_accelerator",
            "kv_pool_bytes",
            "decode_step_s",
            "tpot_s",
            "usd_per_hour",
        )


@pytest.mark.parametrize(
    ("engine", "speculative"), [("vllm", None), ("sglang", None), ("tensorrt-llm", None), ("vllm", DRAFTED)]
)
def test_steps_of_every_engines_memory_rule_and_of_drafting(
    market: Market, engine: str, speculative: Speculative | None
) -> None:
    deployment = Deployment(
        "nvidia-h100-sxm5-80gb", engine=engine, weight_format="fp8", tensor_parallel=1, speculative=speculative
    )
    found = estimate(Question(replace(CHAT, load=Load.CLOSED, in_flight=32.0), trace=True), deployment, market)
    check(list(found.trace), "usable_bytes", "kv_pool_bytes", "forward_s", "decode_step_s", "tpot_s")


def test_steps_of_a_mixture_of_experts_with_latent_attention(market: Market, snapshots: SnapshotStore) -> None:
    workload = replace(CHAT, model=snapshots.model("deepseek-ai/DeepSeek-V3"), slo=Slo(10.0, 0.2, None, 95))
    check(all_steps(market, workload), "cache_bytes_per_sequence", "linear_s")


def test_steps_of_single_pass_work(market: Market, snapshots: SnapshotStore) -> None:
    workload = replace(CHAT, model=snapshots.model("resnet50"), peak_per_s=500.0, slo=Slo(None, None, 0.1, 95))
    check(all_steps(market, workload), "flops_slope_s", "batch_s", "capacity_per_s")


def test_steps_of_training_and_fine_tuning(market: Market) -> None:
    check(
        all_steps(market, PRETRAIN),
        "step_time_s",
        "mfu",
        "wall_s",
        "accelerator_hours",
        "usd_total",
        "memory_bytes_per_accelerator",
    )
    check(
        all_steps(market, replace(PRETRAIN, phase="fine_tuning", method=Method.QLORA, units=1e7, global_batch=16)),
        "wall_s",
    )
