"""What tests of serving start from: two small models, columns of coefficients, and plans on the small catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import column_names
from app.sizing.decisions.machines import find_candidates
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.parts import Environment
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.read import read_architecture
from app.sizing.question import Constraints, Deployment, Economics
from app.sizing.serving.collectives import LinkUse, link_use
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import PrefillTerms, PrefillWork, prefill_work
from app.sizing.serving.search import enumerate_plans
from app.sizing.serving.step import StepTerms, StepWork, step_work
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Slo
from tests.examples import CHAT
from tests.sizing.small import BIG, SMALL, coefficients

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "max_position_embeddings": 8192,
}
DENSE = read_architecture(CONFIG, name="dense")
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512}
MIXTURE = read_architecture({**CONFIG, "model_type": "qwen3_moe", **EXPERTS}, name="mixture")

# 10 requests a second of 800 tokens in and 201 out, whose lengths do not vary.
STEADY: InferenceWorkload = InferenceWorkload(
    **{f: getattr(CHAT, f) for f in CHAT.__slots__}
    | {
        "model": DENSE,
        "peak_per_s": 10.0,
        "average_per_s": 4.0,
        "input_tokens": Lengths(800.0),
        "output_tokens": Lengths(201.0),
        "slo": Slo(None, None, None, 95),
        "max_context_tokens": 2048.0,
    }
)


def achieved(rows: int = 1, **changed: float) -> Achieved:
    """The coefficients of the small catalogue, one row each."""
    known = {c.name: c.value for c in coefficients(**changed)}
    return Achieved(**{name: np.full(rows, known[name]) for name in column_names(Achieved)})


def planned(
    model: ModelArchitecture = DENSE,
    *,
    of: Catalog = SMALL,
    constraints: Constraints | None = None,
    fixed: Deployment | None = None,
    rejections: Rejections | None = None,
    **workload: Any,
) -> Plans:
    limits = constraints or Constraints(accelerators=(fixed.accelerator,) if fixed else ())
    turned_down = rejections or Rejections(of.accelerators)
    machines = find_candidates(of, limits, Economics(), Assumptions(), turned_down, fixed=fixed)
    asked = InferenceWorkload(**{f: getattr(STEADY, f) for f in STEADY.__slots__} | {"model": model} | workload)
    return enumerate_plans(
        model,
        of,
        machines,
        limits,
        turned_down,
        Assumptions(),
        phase=serving_backend(asked).phase,
        personal=asked.is_personal,
        fixed=fixed,
        prompt_tokens=asked.uncached_prompt_tokens,
    )


def rented(model: ModelArchitecture = DENSE, *, of: Catalog = SMALL, fixed: Any = None, **limits: Any) -> Plans:
    """Plans on the rented board of eight."""
    known = {"accelerators": (BIG.slug,), "environments": (Environment.CLOUD,), "weight_formats": ("bf16",)}
    constraints = Constraints(**known | limits)
    deployment = None if fixed is None else Deployment(BIG.slug, **{"weight_format": "bf16"} | fixed)
    return planned(model, of=of, constraints=constraints, fixed=deployment)


def on_big(model: ModelArchitecture = DENSE, *, of: Catalog = SMALL, **fixed: Any) -> Plans:
    """One plan on the rented machine of eight."""
    layout: dict[str, Any] = {
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "engine": "vllm",
        "weight_format": "bf16",
    } | fixed
    found = planned(model, of=of, fixed=Deployment("acme-big", system="big-8", provider="sky", **layout))
    return found.take(np.array([0]))


def flat_step(seconds: float) -> StepTerms:
    """A step that takes the same time whatever the batch."""
    terms: dict[str, Any] = dict.fromkeys(column_names(StepTerms), np.zeros(1))
    known = {
        "pipeline_parallel": 1.0,
        "data_parallel": 1.0,
        "exponent": 1.0,
        "linear_slope_s": 1e-12,
    }  # prompts take far more per token
    same = {name: np.full(1, value) for name, value in known.items()}
    return StepTerms(
        **terms
        | same
        | {"drafted_tokens": 0.0, "draft_share": 0.0, "accepted_tokens_per_step": 1.0}
        | {"host": None, "host_fixed_s": np.full(1, seconds)}
    )


def flat_prefill(seconds: float, *, new_tokens: float = 800.0, request_s: float = 0.005) -> PrefillTerms:
    """Prompts that take the same time each, alone or together."""
    terms: dict[str, Any] = dict.fromkeys(column_names(PrefillTerms), np.zeros(1))
    known = {"prompt_linear_s": seconds, "new_tokens": new_tokens, "request_s": request_s}
    ones = {"overlapped_stages": 1.0, "data_parallel": 1.0, "exponent": 1.0}
    terms["host"] = None
    return PrefillTerms(**terms | {name: np.full(1, float(value)) for name, value in (known | ones).items()})


def memory_of(sequences: float, *, max_batched_tokens: float = 1000.0) -> ServingMemory:
    """Memory for a number of concurrent sequences."""
    columns: dict[str, Any] = dict.fromkeys(column_names(ServingMemory), np.zeros(1))
    known = {"sequences": np.full(1, float(sequences)), "max_batched_tokens": np.full(1, max_batched_tokens)}
    return ServingMemory(**columns | known | {"prefixes": None, "host": None})


def varied(**changed: Any) -> InferenceWorkload:
    """The steady workload with other fields."""
    return replace(STEADY, **changed)


def links_of(plans: Plans) -> LinkUse:
    return link_use(plans, Assumptions())


def step_of(model: ModelArchitecture, plans: Plans, *, context_tokens: float) -> StepWork:
    return step_work(model, plans, links_of(plans), context_tokens=context_tokens)


def prompt_of(model: ModelArchitecture, plans: Plans, **tokens: float) -> PrefillWork:
    return prefill_work(model, plans, links_of(plans), **tokens)
