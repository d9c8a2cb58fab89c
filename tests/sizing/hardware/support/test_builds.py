"""Builds by engine."""

from __future__ import annotations

from app.sizing.hardware.support.builds import (
    BUILDS,
    OWN_BUILDS,
    accepted_formats,
    covers_work,
    matching_formats,
    supports_work,
)
from app.sizing.hardware.support.generations import GENERATIONS, RUNTIMES
from app.sizing.hardware.support.records import QLORA, Work
from app.sizing.hardware.support.rules import UNITS
from app.sizing.model.formats import KV_FORMATS, WEIGHT_FORMATS
from app.sizing.model.tasks import ModelTask


def test_runtimes_and_generations_of_builds_are_known() -> None:
    builds = [b for of_engine in BUILDS.values() for b in of_engine]
    assert {r for b in builds for r in b.runtimes} <= set(RUNTIMES)
    assert {name for b in builds for name in b.on} <= {g.name for g in GENERATIONS}


def test_formats_of_builds_are_known_and_a_star_stands_for_all_that_begin_so() -> None:
    known = {*WEIGHT_FORMATS, *UNITS}
    assert {f for b in OWN_BUILDS for f in (*b.multiplies, *b.unpacks)} <= known
    assert {f for b in OWN_BUILDS for f in b.kv} <= {*KV_FORMATS, "fp32"}
    assert {*matching_formats("gguf-*")} == {f for f in known if f.startswith("gguf-")}


def test_a_build_that_trains_adapters_of_a_quantized_model_holds_4_bits() -> None:
    assert [b.engine for b in OWN_BUILDS if QLORA in b.methods and not {"nf4", "int4-mlx"} & {*b.unpacks}] == []


def test_what_builds_do() -> None:
    (cuda, *_) = BUILDS["vllm"]
    assert supports_work(cuda, Work("inference"))
    assert not supports_work(cuda, Work("sample_inference", task=ModelTask.DIFFUSION))
    assert not supports_work(cuda, Work("training", "full"))
    assert not covers_work("text-embeddings-inference", Work("inference"))
    assert covers_work("unlisted", Work("inference"))
    assert "gguf-q4_k_m" in accepted_formats("llama.cpp", Work("inference"))
    assert accepted_formats("vllm", Work("training", "full")) == ()
