"""The recipe that determines the memory of a run, as the answer states it. The estimate of a run: layout, links,
memory and time in words that the tables bear out. Sentences about the memory of training.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AppError
from app.sizing.answer.confidence import build_certainty, training_setting
from app.sizing.answer.training import (
    PEAK_MOMENT_TEXTS,
    alternative_text,
    build_misfit_estimate,
    interconnect_text,
    largest_bottleneck,
    memory_reason,
    non_default_choice,
    parallelism_text,
    recipe_reason,
    resolve_recipe,
    storage_reason,
    useful_alternatives,
)
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.recipes import ADAPTER_FIELDS, RECIPES, VOCABULARIES, RecipeSettings
from app.sizing.question import Deployment, Question
from app.sizing.result import DeviceMemory
from app.sizing.snapshot import Catalog
from app.sizing.training.finalists import Alternative
from app.sizing.training.memory import MOMENTS
from app.sizing.workload import Method
from tests.examples import PRETRAIN, col, present, row
from tests.sizing.answer.given import DEPLOYMENT, RUN
from tests.sizing.small import BIG, SMALL
from tests.sizing.training.layouts import H100, SINGLE, WORKLOAD, asked, one


def test_what_is_said_of_adapters_goes_with_adapters(catalog: Catalog) -> None:
    for method, adapted in ((Method.FULL, 0), (Method.LORA, 2), (Method.QLORA, 3)):
        workload = replace(WORKLOAD, method=method)
        found = present(resolve_recipe(workload, one(catalog, framework="fsdp", zero_stage=0), 0))
        stated = (found.adapter_precision, found.adapter_dropout, found.kbit_widening)
        assert sum(value is not None for value in stated) == adapted


def test_recomputation_is_the_layouts_own(catalog: Catalog) -> None:
    for layout, said, text in (("none", None, "none"), ("selective", "attention", "attention"), ("full", None, "full")):
        plans = one(
            catalog, activation_checkpointing=layout, zero_stage=1, recipe=RecipeSettings(recomputation=said), **SINGLE
        )
        found = present(resolve_recipe(WORKLOAD, plans, 0))
        assert found.recomputation == text


def test_one_sentence_names_whose_recipe_it_is() -> None:
    (said,) = recipe_reason(RecipeSettings(name="torchtune 0.6", loss="chunked", kernels="eager"))
    assert said.text.startswith("Memory follows the recipe of torchtune 0.6: eager kernels;")
    assert recipe_reason(None) == ()


def said(data: st.DataObject) -> RecipeSettings:
    words: dict[str, Any] = {
        name: data.draw(st.sampled_from([None, *words])) for name, words in VOCABULARIES.items() if name != "selective"
    }
    flags: dict[str, Any] = {name: data.draw(st.sampled_from([None, True, False])) for name in ADAPTER_FIELDS[1:]}
    return RecipeSettings(**words, **flags)


@given(data=st.data())
def test_any_recipe_comes_back_whole_and_gives_the_same_memory_again(catalog: Catalog, data: st.DataObject) -> None:
    workload = replace(WORKLOAD, method=data.draw(st.sampled_from(list(Method))))
    recipe = said(data)
    framework = data.draw(st.sampled_from(["fsdp", "deepspeed", "megatron", "torchtune", "trl", "transformers"]))
    deployment = Deployment(
        H100,
        accelerators_per_replica=8,
        framework=framework,
        recipe=recipe,
        activation_checkpointing=recipe.recomputation_layout,
        optimizer_offload=recipe.offloads_optimizer,
    )
    try:
        found = estimate_deployment(Question(workload), deployment, catalog)
    except AppError:
        return
    recipe_shown = found.deployment.recipe
    if recipe_shown is None or recipe_shown.name is None:  # what does not run there is echoed as it was asked
        return
    wanted = {name: word for name, word in asdict(recipe).items() if word is not None}
    adapts = workload.method is not Method.FULL
    for name, word in wanted.items():
        if (adapts or name not in ADAPTER_FIELDS) and (workload.method is Method.QLORA or name != "kbit_widening"):
            assert getattr(recipe_shown, name) == word
    assert recipe_shown.name in {r.name for r in RECIPES}
    again = estimate_deployment(Question(workload), found.deployment, catalog)
    assert again.deployment == found.deployment
    assert again.memory == found.memory


STEP = {"compute_s": 6.0, "exposed_communication_s": 2.0, "pipeline_bubble_s": 1.0, "optimizer_s": 0.5, "input_s": 0.5}


def plans(**columns: Any) -> Any:
    known: dict[str, Any] = {
        "tensor_parallel": col(4),
        "pipeline_parallel": col(2),
        "context_parallel": col(1),
        "expert_parallel": col(1),
        "zero_stage": col(1),
        "activation_checkpointing": np.array([0]),
        "optimizer_offload": np.array([False]),
        "parameter_offload": np.array([False]),
        "offered": row(ram_bytes=col(2e12)),
        "activation_offload": np.array([False]),
        "node": row(
            link=np.array([2]),
            link_bytes_per_s=col(450e9),
            network_bytes_per_s=col(np.nan),
            accelerators_per_node=col(8),
        ),
        "machine": row(network_bytes_per_s=col(50e9)),
    }
    return row(**known | columns)


def run(**columns: Any) -> Any:
    known: dict[str, Any] = {
        "data_parallel": col(1024),
        "nodes": col(2),
        "step": row(**{name: col(value) for name, value in STEP.items()}),
        "memory": row(total_bytes=col(60 * GIB), usable_bytes=col(72 * GIB), host_bytes=col(0), moment=np.array([0])),
    }
    return row(**known | columns)


@pytest.mark.parametrize(
    ("part", "bottleneck"),
    [
        ("compute_s", "compute"),
        ("exposed_communication_s", "interconnect"),
        ("pipeline_bubble_s", "latency"),
        ("optimizer_s", "memory_bandwidth"),
        ("input_s", "host"),
    ],
)
def test_the_largest_part_of_a_step_is_what_it_waits_for(part: str, bottleneck: str) -> None:
    step = row(**{name: col(value) for name, value in (STEP | {part: 7.0}).items()})
    assert largest_bottleneck(run(step=step), 0) == bottleneck


def test_degrees_are_named_where_they_are_used() -> None:
    assert parallelism_text(plans(), run(), 0) == "tensor parallel 4, pipeline parallel 2, data parallel 1,024"
    assert parallelism_text(plans(context_parallel=col(8), expert_parallel=col(16)), run(), 0) == (
        "tensor parallel 4, pipeline parallel 2, context parallel 8, expert parallel 16, data parallel 1,024"
    )


def test_links_are_shown_with_their_rates() -> None:
    # 50 GB/s for each of 8 accelerators are 3200 Gbit/s
    assert interconnect_text(plans(), run(), 0) == (
        "scale-up links at 450 GB/s per direction within a machine and 3,200 Gbit/s per machine between machines"
    )
    slow = row(network_bytes_per_s=col(12.5e9))  # as assumed, where the catalogue knows no network
    assert interconnect_text(plans(machine=slow), run(), 0).endswith("and 800 Gbit/s per machine between machines")
    inside = interconnect_text(plans(), run(nodes=col(1)), 0)
    assert inside == "scale-up links at 450 GB/s per direction within a machine"
    alone = plans(
        node=row(
            link=np.array([0]), link_bytes_per_s=col(0), network_bytes_per_s=col(50e9), accelerators_per_node=col(1)
        )
    )
    assert interconnect_text(alone, run(nodes=col(1)), 0) == "one accelerator per machine"


def test_an_alternative_takes_at_most_twice_as_long() -> None:
    slower, far_slower = (Alternative("tensor parallel 2", True, share, 70 * GIB, 1.0) for share in (0.9, 3.1))
    assert useful_alternatives((slower, far_slower)) == [slower]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Alternative("tensor parallel 2", True, 0.25, 70 * GIB, 0.9), "tensor parallel 2 (25 % slower)"),
        (Alternative("a micro-batch of 4", True, 0.002, 70 * GIB, 0.8), "a micro-batch of 4 (equally fast)"),
        (Alternative("tensor parallel 2", True, -0.1, 70 * GIB, 1.0), "tensor parallel 2 (10 % faster)"),
        (
            Alternative("no offload", False, -0.1, 76 * GIB, 0.4),
            "no offload (would fit with 40 % probability: 76 GiB needed, 10 % faster)",
        ),
        (
            Alternative("no offload", True, -0.1, 70 * GIB, 0.7),
            "no offload (would fit with 70 % probability: 70 GiB needed, 10 % faster)",
        ),
        (Alternative("tensor parallel 2", False, -0.1, 96 * GIB, 0), "tensor parallel 2 (does not fit: 96 GiB needed)"),
    ],
)
def test_an_alternative_is_slower_faster_or_too_large(other: Alternative, words: str) -> None:
    assert alternative_text(other, 0.8) == words


def test_storage_is_shown_in_gigabytes_and_minutes() -> None:
    found = storage_reason(
        replace(
            RUN,
            checkpoint_bytes=112e9,
            checkpoint_interval_s=1800.0,
            checkpoint_stall_s=2.0,
            required_storage_bytes_per_s=0.25e9,
        )
    )
    assert found.text == (
        "A checkpoint of 112 GB every 30 min stalls the run for 2 s. Storage must sustain 0.25 GB/s to write it "
        "within 25 % of that interval."
    )
    assert found.value == pytest.approx(0.25)


def test_a_choice_is_echoed_only_where_it_is_not_the_frameworks_own() -> None:
    chosen = np.array([True, False])
    assert [non_default_choice(chosen, i, usual) for i in (0, 1) for usual in (True, False)] == [
        None,
        True,
        False,
        None,
    ]


def memory(total_gib: float) -> DeviceMemory:
    return DeviceMemory(total_gib * GIB, 0.0, 0.0, 0.0, 0.0, 0.0, 80 * GIB, 72 * GIB)


@pytest.mark.parametrize(
    ("total_gib", "probability", "host_gib", "words", "shown"),
    [
        (100.0, 0.04, 0.0, "each accelerator needs 100.0 GiB but has 72.0 GiB usable.", False),
        (75.0, 0.35, 0.0, "borderline: the run is 35 % likely to fit. The speed assumes that it does.", True),
        (60.0, 0.0, 1500.0, "the host needs 1,500 GiB of its own memory for offloaded states.", False),
    ],
)
def test_a_misfit_shows_its_speed_only_where_it_may_fit_after_all(
    total_gib: float, probability: float, host_gib: float, words: str, shown: bool
) -> None:
    sure = build_certainty(training_setting(PRETRAIN, BIG, "megatron", 8.0), SMALL, Assumptions(), training=True)
    found = build_misfit_estimate(DEPLOYMENT, memory(total_gib), RUN, sure, probability, host_bytes=host_gib * GIB)
    assert found.explanation[0].text.endswith(words)
    assert (found.fits, found.performance is not None) == (False, shown)


def test_an_estimate_of_a_run_adds_up() -> None:
    asked = Deployment("acme-big", system="big-8", accelerators_per_replica=16, framework="megatron")
    found = estimate_deployment(Question(replace(PRETRAIN, deadline_s=1e9)), asked, SMALL)
    speed, d = found.performance, found.deployment
    assert found.fits and speed is not None and found.cost is not None
    degrees = (d.tensor_parallel, d.pipeline_parallel, d.context_parallel, d.data_parallel)
    assert np.prod([degree or 1 for degree in degrees]) == d.accelerators_per_replica == 16
    assert sum((speed.step_breakdown_s or {}).values()) == pytest.approx(speed.step_time_s)
    # 512 sequences of 4096 tokens a step
    assert (speed.tokens_per_s or 0) * (speed.step_time_s or 0) == pytest.approx(512 * 4096)
    assert (speed.tokens_per_s_per_accelerator or 0) * 16 == pytest.approx(speed.tokens_per_s)
    assert found.cost.usd_total == pytest.approx((found.cost.usd_per_hour or 0) * (speed.days or 0) * 24)
    codes = [r.code for r in found.explanation if r.code != "alternatives"]
    assert codes == ["memory", "recipe", "layout", "bottleneck", "deadline", "storage", "price"]


@pytest.mark.parametrize(
    ("accelerators", "text"),
    [(1, "Layout: one accelerator, no parallelism."), (8, "Layout on 8 accelerators: tensor parallel ")],
)
def test_a_run_on_one_accelerator_has_no_degrees(accelerators: int, text: str) -> None:
    asked = Deployment("acme-big", system="big-8", accelerators_per_replica=accelerators, framework="megatron")
    tuning = replace(PRETRAIN, phase="fine_tuning", method=Method.LORA, units=2e6, deadline_s=1e9)
    found = estimate_deployment(Question(tuning), asked, SMALL)
    assert next(r.text for r in found.explanation if r.code == "layout").startswith(text)


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
    assert "0 GiB of host memory (check the host: its memory is not listed)" in text


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
