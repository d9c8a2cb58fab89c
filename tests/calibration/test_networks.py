"""What published results leave to their sources' recipes: names, sizes, batches and units of networks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from app.catalog.files import read_rows
from app.catalog.snapshot import CatalogStore
from app.sizing.model.architecture import ModelKind
from app.sizing.snapshot import Catalog
from calibration.case import NotCompared
from calibration.training.cases import TrainingCases
from calibration.training.networks import NAMES, complete_row, kernels_of, sample_shape

A100, V100 = "nvidia-a100-sxm4-80gb", "nvidia-v100-sxm2-32gb"


def published(model: str, framework: str = "PyTorch", **row: Any) -> dict[str, Any]:
    return {"source_key": "nvidia_dle", "model": model, "framework": framework, "accelerator": A100, **row}


@pytest.mark.parametrize(
    ("row", "batch"),
    [
        (published("resnet50 v1.5", precision="fp16-mixed"), "256"),
        (published("efficientnet-b4", precision="tf32"), "64"),
        (published("efficientnet-b4", precision="fp32", accelerator=V100), "32"),
        (published("efficientnet-b4", precision="fp32", accelerator="nvidia-v100-sxm2-16gb"), "16"),
        (published("efficientnet-b0", "TensorFlow 2", precision="fp16-mixed", accelerator=V100), "512"),
        (published("resnet50 v1.5", precision="fp16-mixed", micro_batch="32"), "32"),
        (published("resnet50 v1.5", "JAX", precision="fp16-mixed"), None),
    ],
)
def test_a_batch_that_a_row_leaves_out_is_its_sources(row: dict[str, Any], batch: str | None) -> None:
    assert complete_row(row).get("micro_batch") == batch


def test_a_rate_of_encoder_positions_becomes_one_of_samples() -> None:
    row = published("facebook/wav2vec2-base", samples_s_total="1499000")
    assert complete_row(row)["samples_s_total"] == "1000.0"


def test_sizes_of_images_are_read_from_the_row_or_its_source() -> None:
    assert sample_shape({"notes": "NCHW layout; image 106px", "model": "x"}).width == 106
    assert sample_shape(published("efficientnetv2-s", "TensorFlow 2")).height == 300
    assert sample_shape(published("resnet50 v1.5")).width is None


def test_networks_of_mlperf_are_trained_by_what_splits_no_layers() -> None:
    row = {"source_key": "mlperf_training_v4.1", "model": "RetinaNet ResNeXt50", "framework": "NeMo, HugeCTR"}
    assert complete_row(row)["framework"] == "PyTorch"
    assert complete_row({**row, "model": "gpt3-175b"})["framework"] == "NeMo, HugeCTR"


def test_kernels_are_fused_where_a_source_wrote_its_own() -> None:
    assert kernels_of({"source_key": "mlperf_training_v4.0"}) == "fused"
    assert [kernels_of(published("x", framework)) for framework in ("MXNet", "PyTorch")] == ["fused", "eager"]


@pytest.mark.parametrize("model", ["efficientnet-quant-b0", "FastPitch"])
def test_other_work_is_not_compared(model: str) -> None:
    with pytest.raises(NotCompared, match="no rate of training alone"):
        complete_row(published(model))


def test_every_name_leads_to_a_model_and_nearly_every_network_to_a_case(
    catalog: Catalog, catalog_store: CatalogStore
) -> None:
    training_cases = TrainingCases(catalog, catalog_store.find_model)
    assert [name for name in NAMES.values() if training_cases.model_named(name) is None] == []
    left, read = Counter[str](), 0
    for row in read_rows("measurements_training.csv"):
        if row["source_key"] not in ("nvidia_dle", "timm_benchmark") or row.get("hidden"):
            continue
        try:
            asked = training_cases.read_question(row)
            read += asked.workload.model.kind is ModelKind.SAMPLES
        except NotCompared as why:
            left[str(why)] += 1
    assert read > 550
    assert left["model is not in the catalogue under that name, and the row gives no shape"] < 100
