"""Whatever has a published result in our own tables is supported."""

from __future__ import annotations

import pytest

from app.catalog.names import engine_slug
from app.sizing.hardware.stacks import training_work
from app.sizing.hardware.support.builds import BUILDS
from app.sizing.hardware.support.records import FULL, Work
from app.sizing.hardware.support.rules import SupportEvidence, find_refusal, verdict
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tasks import TASKS, ModelTask
from calibration.serving.published import weight_format
from calibration.training.cases import METHODS
from calibration.training.published import executed_precision, precision_of, published_trainer
from tests.catalogued import accelerators, rows, support

DOCUMENTS = SupportEvidence(support())
ENGINES = {*BUILDS, *(row.engine for row in support())}
SERVED = (Work("inference"), *(Work("sample_inference", task=t) for t in TASKS if t is not ModelTask.DECODER))
# What rows that give no format may have been: a published figure of some format shows that one of them runs.
UNSAID = ("bf16", "fp16", "fp8", "int8", "fp32")
# MLPerf's image and picture rows give no precision; on TPUs it was none that anybody trains them in there.
GUESSED = ("maxdiffusion",)


def refused_serving() -> set[tuple[str, str, str, str]]:
    found = set()
    for row in rows("measurements_inference.csv"):
        engine, accelerator = engine_slug(row["engine"]), accelerators().get(row["accelerator"])
        published = weight_format(engine, row["weight_precision"])
        if accelerator is None or engine not in ENGINES or (published and published not in WEIGHT_FORMATS):
            continue
        formats = (published,) if published else UNSAID
        said = [verdict(accelerator, engine, f, work, DOCUMENTS) for f in formats for work in SERVED]
        if not any(v.is_supported for v in said):
            found.add((engine, accelerator.slug, row["weight_precision"], max(said, key=lambda v: v.far).rule))
    return found


def refused_training() -> set[tuple[str, str, str, str]]:
    found = set()
    for row in rows("measurements_training.csv"):
        accelerator, precision = accelerators().get(row["accelerator"]), precision_of(row)
        if accelerator is None or precision is None or row["method"] not in METHODS or row["framework"] in GUESSED:
            continue
        phase, method = METHODS[row["method"]]
        named = published_trainer(row["framework"] or "")
        if named == "fsdp" and method.value != FULL:
            named = "peft+bitsandbytes"
        precision = executed_precision(precision, accelerator)
        asked = [training_work(phase, method.value, precision, task) for task in TASKS]
        said = [find_refusal(accelerator, (named,) if named else (), (f,), work, DOCUMENTS) for f, work in asked]
        if not any(v is not None and v.is_supported for v in said):
            found.add((row["framework"], accelerator.slug, precision, method.value))
    return found


# Results of a back end that today's releases no longer have: TensorRT-LLM ran INT8 only on TensorRT engines.
RETIRED = {("tensorrt-llm", "int8")}


def test_no_published_result_of_serving_is_refused() -> None:
    assert {(engine, precision) for engine, _, precision, _ in refused_serving()} == RETIRED


def test_no_published_result_of_training_is_refused() -> None:
    assert refused_training() == set()


@pytest.mark.parametrize(("precision", "chip", "found"), [("bf16", "nvidia-t4", "fp16"), ("bf16", "nvidia-l4", "bf16")])
def test_bf16_is_fp16_where_a_chip_has_none(precision: str, chip: str, found: str) -> None:
    assert executed_precision(precision, accelerators()[chip]) == found
