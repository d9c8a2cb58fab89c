"""Which stacks a question allows."""

from __future__ import annotations

from app.sizing.hardware.support.records import Work
from app.sizing.model.tasks import ModelTask
from app.sizing.question import Constraints, Deployment
from app.sizing.serving.stacks import requested_engines, select_stacks
from app.sizing.snapshot import Catalog
from tests.sizing.small import BIG, SMALL, SUPPORT, snapshot

BF16 = frozenset({"bf16"})


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


def test_a_fixed_engine_comes_before_those_allowed() -> None:
    assert requested_engines(Constraints(engines=("sglang",)), Deployment("x", engine="vllm")) == ("vllm",)
    assert requested_engines(Constraints(engines=("sglang",)), Deployment("x")) == ("sglang",)
    assert requested_engines(Constraints(), None) == ()
