"""Candidates: which layouts, formats and caches are judged on which machine. Which stacks a question allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.parts import KINDS
from app.sizing.hardware.support.records import EngineSupport, Work
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.formats import KV_FORMATS
from app.sizing.model.tasks import ModelTask
from app.sizing.question import Constraints, Deployment
from app.sizing.serving.plans import Plans, default_weight_formats, requested_engines, select_stacks
from app.sizing.snapshot import Catalog
from tests.examples import registered
from tests.sizing.serving.given import CONFIG, DENSE, MIXTURE, on_big, planned, rented
from tests.sizing.small import ACCELERATORS, BIG, CARD, DESK, RARE, SMALL, SUPPORT, snapshot


def cells(plans: Plans, of: Catalog = SMALL) -> set[tuple[str, str, str]]:
    """(engine, weight format, cache format) of every plan."""
    kv = list(KV_FORMATS)
    return {
        (of.engines[e], of.formats[w], kv[k])
        for e, w, k in zip(plans.engine.tolist(), plans.weight_format.tolist(), plans.kv.tolist(), strict=True)
    }


@pytest.mark.parametrize(
    ("limits", "fixed", "found"),
    [
        ({"weight_formats": ()}, None, {("vllm", "bf16", "bf16"), ("vllm", "fp8", "bf16")}),
        ({"weight_formats": ("fp8",)}, None, {("vllm", "fp8", "bf16")}),
        ({"kv_formats": ("fp8", "bf16")}, None, {("vllm", "bf16", "bf16"), ("vllm", "bf16", "fp8")}),
        ({"kv_formats": ("int8",)}, None, set()),
        ({}, {"kv_format": "fp8"}, {("vllm", "bf16", "fp8")}),
        ({}, {}, {("vllm", "bf16", "bf16")}),
        ({"engines": ("sglang",)}, None, {("sglang", "bf16", "bf16")}),  # named, what only rules say runs counts
        ({"engines": ("mlx",)}, None, set()),
        ({"engines": ("vllm",)}, None, {("vllm", "bf16", "bf16")}),
        ({"weight_formats": ("int4-mlx",)}, None, set()),
    ],
)
def test_formats_of_weights_and_cache(
    limits: dict[str, Any], fixed: dict[str, Any] | None, found: set[tuple[str, str, str]]
) -> None:
    assert cells(rented(fixed=fixed, **limits)) == found


def test_a_cache_has_the_format_that_checkpoints_carry_unless_the_request_names_another() -> None:
    """A recommendation and an estimate of the same stack agree."""
    both = ("bf16", "fp8")
    support = [
        EngineSupport(e, BIG.family, "inference", {"fp8": True, "nvfp4": True}, both, "a test")
        for e in ("vllm", "tensorrt-llm")
    ]
    of = snapshot(support=support)
    formats = ("fp8", "nvfp4")
    carried = {
        ("tensorrt-llm", "fp8", "fp8"),
        ("vllm", "fp8", "bf16"),
        ("vllm", "nvfp4", "bf16"),
    }
    assert cells(rented(of=of, weight_formats=formats), of) == carried
    assert cells(rented(of=of, weight_formats=formats, kv_formats=("auto",)), of) == carried
    for engine, weights, cache in carried:
        fixed = {"engine": engine, "weight_format": weights}
        assert cells(rented(of=of, fixed=fixed), of) == {(engine, weights, cache)}
    every = {(engine, weights, cache) for engine, weights, _ in carried for cache in both}
    found = rented(of=of, weight_formats=formats, kv_formats=("auto", *both))
    assert cells(found, of) == every
    assert len(found) == 2 * len(rented(of=of, weight_formats=formats))  # a format named twice counts once


def supported(formats: dict[str, bool], of: Any = BIG, engine: str = "vllm", **accelerator: Any) -> Catalog:
    """The small catalogue with one engine on one family, whose accelerator may differ."""
    changed = [replace(a, **accelerator) if a is of else a for a in ACCELERATORS]
    return snapshot(
        accelerators=changed,
        support=[EngineSupport(engine, of.family, "inference", formats, ("bf16", "fp16"), "a test")],
    )


def test_sixteen_bits_are_judged_once() -> None:
    both = supported({"bf16": True, "fp16": True})
    assert {w for _, w, _ in cells(rented(of=both, weight_formats=()), both)} == {"bf16"}
    assert {w for _, w, _ in cells(rented(of=both, weight_formats=("fp16", "bf16")), both)} == {"bf16", "fp16"}
    old = supported({"bf16": True, "fp16": True}, flops_per_s={"fp16": 1e15})
    assert {w for _, w, _ in cells(rented(of=old, weight_formats=()), old)} == {"fp16"}
    assert {w for _, w, _ in cells(rented(of=old, weight_formats=("bf16",)), old)} == set()


def test_an_engine_without_bf16_is_judged_in_fp16_together_with_one_that_has_it() -> None:
    narrow = EngineSupport("tensorrt-llm", BIG.family, "inference", {"fp16": True}, ("fp16",), "a test")
    both = snapshot(support=[*SUPPORT, narrow])
    assert ("tensorrt-llm", "fp16", "bf16") in cells(rented(of=both, weight_formats=()), both)


@pytest.mark.parametrize(
    ("formats", "engine", "rates", "linear", "bit16"),
    [
        ({"bf16": True}, "vllm", {"bf16": 1e15, "int8": 4e15}, 1e15, 1e15),
        ({"fp8": True}, "vllm", {"bf16": 1e15, "fp8": 2e15}, 2e15, 1e15),
        ({"fp8": False}, "vllm", {"bf16": 1e15, "fp8": 2e15}, 1e15, 1e15),  # widened first
        ({"fp8": True}, "vllm", {"bf16": 1e15}, 1e15, 1e15),
        # Blocks multiply as INT8; attention accumulates in half precision, which GeForce cards do twice as fast.
        ({"gguf-q4_k_m": False}, "llama.cpp", {"fp16": 1e15, "int8": 4e15}, 4e15, 2e15),
        ({"gguf-f16": False}, "llama.cpp", {"fp16": 1e15, "int8": 4e15}, 2e15, 2e15),
        ({"gguf-q4_k_m": False}, "llama.cpp", {"fp16": 1e15, "int8": 1e15}, 1e15, 1e15),
        ({"gguf-q4_k_m": False}, "llama.cpp", {"fp16": 1e15}, 1e15, 1e15),
    ],
)
def test_matrices_are_multiplied_at_the_rate_of_their_format(
    formats: dict[str, bool], engine: str, rates: dict[str, float], linear: float, bit16: float
) -> None:
    of = supported(formats, engine=engine, flops_per_s=rates)
    found = rented(of=of, weight_formats=tuple(formats))
    assert set(found.linear_flops_per_s.tolist()) == {linear}
    assert set(found.bit16_flops_per_s.tolist()) == {bit16}
    assert set(found.bytes_per_s.tolist()) == {3.2e12}


def turned_down(of: Catalog, model: ModelArchitecture = DENSE, **limits: Any) -> dict[str, str]:
    rejections = Rejections(of.accelerators)
    planned(model, of=of, constraints=Constraints(accelerators=(BIG.slug,), **limits), rejections=rejections)
    return {r.accelerator: r.code for r in rejections.by_accelerator.values() if r.accelerator == BIG.slug}


def test_a_type_without_a_plan_says_why() -> None:
    assert turned_down(SMALL) == {}
    assert turned_down(SMALL, weight_formats=("int4-mlx",)) == {BIG.slug: "no_engine"}
    assert turned_down(SMALL, engines=("mlx",)) == {BIG.slug: "no_engine"}
    assert turned_down(supported({"bf16": True}, flops_per_s={"fp16": 1e15})) == {BIG.slug: "format_unsupported"}
    assert turned_down(supported({"bf16": True}, memory_bytes_per_s=None)) == {BIG.slug: "missing_data"}
    assert turned_down(SMALL, kv_formats=("int8",)) == {BIG.slug: "format_unsupported"}
    assert turned_down(SMALL, max_accelerators=4) == {BIG.slug: "no_layout"}


def test_bytes_of_a_plan_are_those_of_its_format() -> None:
    plans = on_big(MIXTURE)
    assert plans.weights_bytes.tolist() == [2 * MIXTURE.total_params]
    assert plans.expert_bytes.tolist() == [2 * MIXTURE.routed_params]
    # the table is looked up, the experts are read apart
    dense = MIXTURE.total_params - MIXTURE.routed_params - 1024 * 32000
    assert plans.streamed_bytes.tolist() == [2 * dense]
    assert plans.kv_element_bytes.tolist() == [2]
    assert on_big(kv_format="fp8").kv_element_bytes.tolist() == [1]


def test_every_plan_keeps_its_machine_and_stack() -> None:
    plans = planned(constraints=Constraints(price_kinds=KINDS, weight_formats=("bf16", "int4-awq", "gguf-q4_k_m")))
    types = {SMALL.accelerators[i].slug for i in plans.accelerator.tolist()}
    assert types == {BIG.slug, CARD.slug, DESK.slug}
    assert RARE.slug not in types
    assert plans.node.accelerator.tolist() == plans.accelerator.tolist()
    assert plans.family.tolist() == SMALL.family_of[plans.accelerator].tolist()
    known = [SMALL.accelerators[i].memory_bytes for i in plans.accelerator.tolist()]
    assert plans.memory_bytes.tolist() == known
    assert plans.accelerators_per_replica.tolist() == (plans.tensor_parallel * plans.pipeline_parallel).tolist()


def test_formats_judged_where_none_is_named() -> None:
    usual = default_weight_formats(DENSE, personal=False)
    assert {"bf16", "fp16", "fp8"} <= usual
    assert usual < default_weight_formats(DENSE, personal=True)
    narrow = read_architecture(
        CONFIG | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, name="narrow"
    )
    judged = default_weight_formats(narrow, personal=False)
    assert {"int4-awq", "bf16"} <= judged
    assert "fp8" not in judged
    others = {"int4-gptq", "nvfp4", "mxfp4"}
    assert not others & default_weight_formats(narrow, personal=True)
    assert others <= default_weight_formats(MIXTURE, personal=True)
    # MXFP4 stores routed experts: without them, nothing
    assert default_weight_formats(DENSE, personal=True) & others == {"int4-gptq", "nvfp4"}
    assert "gguf-q4_k_m" in default_weight_formats(narrow, personal=True)
    # an FP8 checkpoint with experts in 4 bits is born narrow too
    mixed = default_weight_formats(registered("deepseek-ai/DeepSeek-V4-Flash"), personal=True)
    assert "fp8" in mixed
    assert not others & mixed
    assert "int4-awq" in default_weight_formats(registered("deepseek-ai/DeepSeek-R1"), personal=True)


BF16 = frozenset({"bf16"})
NEURON: tuple[tuple[str, ...], ...] = ((), ("neuronx",), ("optimum-neuron",))  # engines that a request names


def engines_on_big(work: Work, *named: str, catalog: Catalog = SMALL) -> set[str]:
    found = select_stacks(catalog, work, BF16, named, None)
    rows = found.on[:, catalog.accelerator_index[BIG.slug]]
    return {catalog.engines[code] for code in found.engine[rows].tolist()}


def test_where_something_is_documented_only_that_competes_and_who_is_named_counts() -> None:
    assert engines_on_big(Work("inference")) == {"vllm"}
    assert engines_on_big(Work("inference"), "sglang", "lmdeploy") == {"sglang", "lmdeploy"}
    assert select_stacks(SMALL, Work("inference"), BF16, ("sglang",), None).expected.all()


def test_where_nothing_is_documented_what_follows_from_rules_competes() -> None:
    catalog = snapshot(support=[row for row in SUPPORT if row.phase == "inference"])
    pictures = engines_on_big(Work("sample_inference", task=ModelTask.DIFFUSION), catalog=catalog)
    assert "diffusers" in pictures
    assert not pictures & {"vllm", "pytorch", "comfyui"}  # the last two only where they are named
    assert engines_on_big(Work("sample_inference", task=ModelTask.DIFFUSION), "pytorch") == {"pytorch"}


def test_what_is_built_by_hand_competes_only_for_what_people_build_it() -> None:
    catalog = snapshot(support=[row for row in SUPPORT if row.phase == "inference"])
    images, texts = (Work("sample_inference", task=t) for t in (ModelTask.VISION, ModelTask.EMBEDDING))
    assert "tensorrt" in engines_on_big(images, catalog=catalog)
    assert "tensorrt" not in engines_on_big(texts, catalog=catalog)
    assert engines_on_big(texts, "tensorrt", catalog=catalog) == {"tensorrt"}


def test_transcripts_on_neuron_are_for_those_who_name_its_engine(catalog: Catalog) -> None:
    """Its Whisper decodes without a cache, which the work of a decoded token assumes."""
    work, row = Work("sample_inference", task=ModelTask.SPEECH), catalog.accelerator_index["aws-inferentia2"]
    named = {names: bool(select_stacks(catalog, work, BF16, names, None).on[:, row].any()) for names in NEURON}
    assert named == dict(zip(NEURON, (False, True, True), strict=True))


def test_a_fixed_engine_comes_before_those_allowed() -> None:
    assert requested_engines(Constraints(engines=("sglang",)), Deployment("x", engine="vllm")) == ("vllm",)
    assert requested_engines(Constraints(engines=("sglang",)), Deployment("x")) == ("sglang",)
    assert requested_engines(Constraints(), None) == ()
