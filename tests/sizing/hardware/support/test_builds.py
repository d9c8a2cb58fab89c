"""Builds by engine."""

from __future__ import annotations

from app.sizing.hardware.support.builds import BUILDS, accepted_formats, covers_work, supports_work
from app.sizing.hardware.support.generations import GENERATIONS, RUNTIMES
from app.sizing.hardware.support.records import Work
from app.sizing.model.tasks import ModelTask


def test_runtimes_and_generations_of_builds_are_known() -> None:
    builds = [b for of_engine in BUILDS.values() for b in of_engine]
    assert {r for b in builds for r in b.runtimes} <= set(RUNTIMES)
    assert {name for b in builds for name in b.on} <= {g.name for g in GENERATIONS}


def test_what_builds_do() -> None:
    (cuda, *_) = BUILDS["vllm"]
    assert supports_work(cuda, Work("inference"))
    assert not supports_work(cuda, Work("sample_inference", task=ModelTask.DIFFUSION))
    assert not supports_work(cuda, Work("training", "full"))
    assert not covers_work("text-embeddings-inference", Work("inference"))
    assert covers_work("unlisted", Work("inference"))
    assert "gguf-q4_k_m" in accepted_formats("llama.cpp", Work("inference"))
    assert accepted_formats("vllm", Work("training", "full")) == ()
