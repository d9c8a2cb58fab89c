"""Sentences about the memory of training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.training_memory import PEAK_MOMENT_TEXTS, memory_reason
from app.sizing.snapshot import Catalog
from app.sizing.training.moments import MOMENTS
from app.sizing.workload import Method
from tests.examples import PRETRAIN, col, row
from tests.sizing.answer.test_training import plans, run
from tests.sizing.training.layouts import asked


@pytest.mark.parametrize(
    ("columns", "how"),
    [
        ({"zero_stage": col(0)}, ", without ZeRO sharding or activation checkpointing"),
        ({}, ", with optimizer states sharded (distributed optimizer)"),
        ({"zero_stage": col(3)}, ", with weights, gradients and optimizer states sharded (ZeRO-3)"),
        (
            {"zero_stage": col(0), "activation_checkpointing": np.array([2])},
            ", with full activation checkpointing",
        ),
        (
            {"zero_stage": col(0), "optimizer_offload": np.array([True])},
            ", with optimizer states offloaded to 0 GiB of host memory",
        ),
    ],
)
def test_memory_is_shown_with_the_settings_that_determine_it(columns: dict[str, Any], how: str) -> None:
    found = memory_reason(PRETRAIN, plans(**columns), run(), 0)
    assert found.text == (
        f"Each accelerator uses 60.0 GiB of 72.0 GiB usable memory{how}. Memory peaks at the loss, when the forward "
        "pass ends."
    )
    assert found.value == pytest.approx(60.0)


def test_unlisted_host_memory_is_to_be_requested_from_the_seller() -> None:
    offloaded = plans(zero_stage=col(0), optimizer_offload=np.array([True]), offered=row(ram_bytes=col(np.nan)))
    text = memory_reason(PRETRAIN, offloaded, run(), 0).text
    assert "0 GiB of host memory (not listed: ask the seller)" in text


def test_on_one_accelerator_nothing_is_sharded_whatever_the_stage() -> None:
    text = memory_reason(PRETRAIN, plans(zero_stage=col(3)), run(data_parallel=col(1)), 0).text
    assert "without ZeRO sharding or activation checkpointing" in text
    text = memory_reason(PRETRAIN, plans(context_parallel=col(2)), run(data_parallel=col(1)), 0).text
    assert "with optimizer states sharded" in text


def test_a_quantised_base_and_a_peak_in_the_update_are_shown() -> None:
    late = row(total_bytes=col(1), usable_bytes=col(1), host_bytes=col(0), moment=np.array([3]))
    text = memory_reason(replace(PRETRAIN, method=Method.QLORA), plans(), run(memory=late), 0).text
    assert text.endswith(" and 4-bit base weights. Memory peaks in the optimizer step.")


def test_every_moment_has_its_words() -> None:
    assert len(PEAK_MOMENT_TEXTS) == len(MOMENTS)


@pytest.mark.parametrize("kept", ["none", "full"])
def test_the_highest_moment_is_the_total_and_its_parts_are_the_activations(catalog: Catalog, kept: str) -> None:
    found = asked(catalog, framework="fsdp", accelerators_per_replica=8, zero_stage=3, activation_checkpointing=kept)
    assert found.memory is not None
    moments, parts = found.memory.moments_bytes, found.memory.activation_parts_bytes
    assert moments is not None and parts is not None
    assert tuple(moments) == MOMENTS
    assert max(moments.values()) == pytest.approx(found.memory.total_bytes)
    assert sum(parts.values()) == pytest.approx(found.memory.activation_bytes)
    sentence = next(r.text for r in found.explanation if r.code == "memory")
    assert sentence.endswith(f"Memory peaks {PEAK_MOMENT_TEXTS[MOMENTS.index(max(moments, key=moments.__getitem__))]}.")
