"""Layouts: what a model's shape and a machine's wiring allow, and what a caller's words leave of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.hardware.parts import KINDS, Environment, Link
from app.sizing.hardware.support.records import EngineSupport
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.read import read_architecture
from app.sizing.question import Constraints, Deployment
from app.sizing.serving.plans import Plans
from app.sizing.workload import Lengths
from tests.examples import LLAMA_70B
from tests.sizing.serving.given import CONFIG, DENSE, MIXTURE, planned, rented
from tests.sizing.small import BIG, CARD, DESK, OFFERS, SUPPORT, SYSTEMS, snapshot

# 812 GB in 16 bit: eleven devices' worth.
GIANT = read_architecture(
    CONFIG
    | {
        "hidden_size": 16384,
        "intermediate_size": 53248,
        "num_hidden_layers": 126,
        "num_attention_heads": 128,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
    name="giant",
)


def layouts(plans: Plans) -> set[tuple[int, int]]:
    return {(int(t), int(p)) for t, p in zip(plans.tensor_parallel, plans.pipeline_parallel, strict=True)}


def heads(attention: int, kv: int) -> ModelArchitecture:
    return read_architecture(CONFIG | {"num_attention_heads": attention, "num_key_value_heads": kv}, name="heads")


@pytest.mark.parametrize(
    ("model", "degrees"),
    [
        (DENSE, {1, 2, 4, 8}),  # eight heads; beyond four KV heads they are copied
        (heads(6, 2), {1, 2}),  # four do not divide six
        (heads(12, 3), {1}),  # two and four split no three KV heads
        (heads(12, 12), {1, 2, 4}),
        (heads(8, 1), {1, 2, 4, 8}),
    ],
)
def test_heads_divide_by_the_tensor_parallel_degree(model: ModelArchitecture, degrees: set[int]) -> None:
    assert layouts(rented(model)) == {(t, 1) for t in degrees}


@pytest.mark.parametrize(
    ("fixed", "found"),
    [
        ({"tensor_parallel": 2}, {(2, 1)}),  # a pipeline is asked for by name
        ({"tensor_parallel": 2, "total_accelerators": 8}, {(2, 1), (2, 2), (2, 3), (2, 4)}),  # of four layers
        ({"pipeline_parallel": 2}, {(1, 2), (2, 2), (4, 2), (8, 2)}),
        ({"tensor_parallel": 2, "pipeline_parallel": 1}, {(2, 1)}),
        ({"tensor_parallel": 3}, set()),
        ({"pipeline_parallel": 5}, set()),  # more stages than layers
        ({"accelerators_per_replica": 4}, {(1, 4), (2, 2), (4, 1)}),
        ({"accelerators_per_replica": 4, "pipeline_parallel": 2}, {(2, 2)}),
        ({"accelerators_per_replica": 4, "tensor_parallel": 2}, {(2, 2)}),
        ({"accelerators_per_replica": 6}, {(2, 3)}),
        ({"accelerators_per_replica": 7}, set()),
        ({"tensor_parallel": 8, "pipeline_parallel": 4}, {(8, 4)}),
        ({}, {(1, 1), (2, 1), (4, 1), (8, 1)}),  # what a search judges
        ({"total_accelerators": 4}, {(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (4, 1)}),
        ({"expert_parallel": 4, "total_accelerators": 8}, {(4, 1), (4, 2), (8, 1)}),
    ],
)
def test_a_layout_asked_for_is_the_one_judged(fixed: dict[str, Any], found: set[tuple[int, int]]) -> None:
    assert layouts(rented(fixed=fixed)) == found


def test_engines_that_pad_take_any_degree_up_to_the_heads() -> None:
    neuron = EngineSupport("neuronx", BIG.family, "inference", {"bf16": True}, ("bf16",), "a test")
    of = snapshot(support=[*SUPPORT, neuron])
    four = {"engine": "neuronx", "tensor_parallel": 4, "pipeline_parallel": 1}
    assert layouts(rented(heads(6, 2), of=of, fixed=four)) == {(4, 1)}
    assert layouts(rented(heads(6, 2), of=of, fixed={"engine": "neuronx", "tensor_parallel": 7})) == set()
    assert layouts(rented(heads(6, 2), of=of, fixed={"engine": "neuronx", "pipeline_parallel": 5})) == set()
    assert layouts(rented(heads(6, 2), of=of, fixed={"engine": "vllm", "tensor_parallel": 4})) == set()


def test_what_does_not_generate_runs_on_one_device() -> None:
    assert layouts(rented(replace(DENSE, kind=ModelKind.ENCODER), of=snapshot())) == {(1, 1)}


@pytest.mark.parametrize(
    ("model", "limits", "found"),
    [
        # 141 GB: two devices hold it; up to eight times that
        (LLAMA_70B, {}, {(2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (4, 2)}),
        # 812 GB: eleven, so from ten along a pipeline over the network; a group stays in its machine
        (GIANT, {}, {(8, 2), (8, 4), (8, 8), (4, 4), (4, 8), (4, 16), (2, 8)}),
        (GIANT, {"max_accelerators": 8}, {(8, 1), (1, 8), (2, 4), (4, 2)}),  # the largest legal ones stay, to reject
        (DENSE, {"max_accelerators": 7}, set()),
    ],
)
def test_layouts_are_as_large_as_the_weights_need(
    model: ModelArchitecture, limits: dict[str, Any], found: set[tuple[int, int]]
) -> None:
    assert layouts(rented(model, **limits)) == found


def test_long_prompts_get_pipeline_stages_beyond_what_the_weights_need() -> None:
    rented_board = Constraints(
        accelerators=(BIG.slug,), environments=(Environment.CLOUD,), weight_formats=("bf16",), engines=("vllm",)
    )
    short, long = (
        layouts(planned(constraints=rented_board, input_tokens=Lengths(tokens))) for tokens in (20_000.0, 100_000.0)
    )
    assert short == {(1, 1), (2, 1), (4, 1), (8, 1)}
    assert long == short | {(1, 2), (1, 4), (2, 2), (2, 4), (4, 2)}


def test_replicas_span_machines_over_known_networks_or_one_domain() -> None:
    unknown = snapshot(systems=[replace(s, network_bytes_per_s=None) for s in SYSTEMS])
    assert layouts(rented(GIANT, of=unknown)) == {(8, 1), (1, 8), (2, 4), (4, 2)}
    assert layouts(rented(GIANT, of=unknown, fixed={"accelerators_per_replica": 16})) == set()
    assert layouts(rented(GIANT, of=unknown, fixed={"total_accelerators": 32})) == layouts(
        rented(GIANT, of=unknown, fixed={"total_accelerators": 8})
    )
    in_full = {"accelerators_per_replica": 16, "tensor_parallel": 8}
    assert layouts(rented(GIANT, of=unknown, fixed=in_full)) == {(8, 2)}
    rack = snapshot(
        systems=[
            replace(s, network_bytes_per_s=None, scaleup_domain_size=16.0) if s.accelerator == BIG.slug else s
            for s in SYSTEMS
        ]
    )
    assert layouts(rented(GIANT, of=rack)) == {(16, 1), (8, 2), (4, 4), (2, 8)}
    assert layouts(rented(GIANT, fixed={"tensor_parallel": 8, "pipeline_parallel": 9})) == set()  # nine machines
    assert layouts(rented(GIANT, fixed={"tensor_parallel": 8, "pipeline_parallel": 8})) == {(8, 8)}
    assert layouts(rented(GIANT, fixed={"tensor_parallel": 4, "pipeline_parallel": 3})) == set()  # no whole machines


def test_ranks_that_are_asked_for_span_as_many_machines_as_they_need() -> None:
    """A search tries at most eight machines of eight; a request for more data-parallel ranks gets them."""
    for data, tensor in ((64, 1), (128, 1), (16, 8)):
        fixed = {"data_parallel": data, "tensor_parallel": tensor, "engine": "vllm"}
        found = rented(MIXTURE, fixed=fixed)
        assert len(found) and set(zip(found.data_parallel, found.tensor_parallel, strict=True)) == {(data, tensor)}
    assert not len(
        rented(MIXTURE, fixed={"data_parallel": 65, "tensor_parallel": 1, "engine": "vllm"})
    )  # 8.125 machines


def test_tensor_parallel_over_machines_is_for_who_asks_for_it_and_for_what_nothing_else_holds() -> None:
    assert layouts(rented(GIANT, fixed={"tensor_parallel": 16})) == {(16, 1)}
    assert layouts(rented(GIANT, fixed={"tensor_parallel": 16, "pipeline_parallel": 2})) == {(16, 2)}
    assert layouts(rented(GIANT, fixed={"accelerators_per_replica": 16, "pipeline_parallel": 1})) == {(16, 1)}
    assert layouts(rented(GIANT, fixed={"accelerators_per_replica": 16})) == {(8, 2), (4, 4), (2, 8), (1, 16)}
    assert layouts(rented(GIANT, fixed={"tensor_parallel": 12})) == set()  # no whole machines
    assert layouts(rented(GIANT, fixed={"tensor_parallel": 128})) == set()  # sixteen of them
    unknown = snapshot(systems=[replace(s, network_bytes_per_s=None) for s in SYSTEMS])
    assert layouts(rented(GIANT, of=unknown, fixed={"tensor_parallel": 16})) == set()
    wide = {"hidden_size": 16384, "intermediate_size": 8_000_000, "num_hidden_layers": 2, "num_attention_heads": 128}
    stout = read_architecture(CONFIG | wide, name="stout")  # 1.6 TB in two layers: two stages of a machine hold half
    assert layouts(rented(stout)) == {(16, 2), (32, 1)}
    assert layouts(rented(stout, max_accelerators=16)) == {(8, 2)}  # as large, without the price


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (heads(8, 1), {(4, 1): {1, 4}, (8, 1): {1, 8}}),  # nothing is kept twice
        (heads(64, 4), {(4, 1): {1}, (8, 1): {1, 2}}),
        (heads(8, 8), {(4, 1): {1}, (8, 1): {1}}),  # no copies
        (heads(6, 1), {}),
    ],
)
def test_contexts_are_shared_where_heads_would_be_copied(
    model: ModelArchitecture, found: dict[tuple[int, int], set[int]]
) -> None:
    plans = rented(model)
    vllm = plans.take(plans.context_bytes > 0)
    degrees = zip(vllm.tensor_parallel, vllm.pipeline_parallel, vllm.context_parallel, strict=True)
    seen: dict[tuple[int, int], set[int]] = {}
    for tensor, pipeline, context in degrees:
        seen.setdefault((int(tensor), int(pipeline)), set()).add(int(context))
    assert {layout: seen[layout] for layout in found} == found
    assert all(contexts == {1} for layout, contexts in seen.items() if layout not in found)
    others = plans.take(plans.context_bytes == 0)
    assert set(others.context_parallel) <= {1}


def test_cards_share_a_slot_and_small_engines_split_layers() -> None:
    limits = Constraints(accelerators=(CARD.slug,), price_kinds=KINDS, weight_formats=("bf16",))
    four = planned(constraints=limits)
    assert layouts(four) == {(1, 1), (2, 1), (4, 1)}
    desks = replace(
        SYSTEMS[0],
        slug="desks",
        accelerator=DESK.slug,
        accelerator_count=4.0,
        link=Link.PCIE,
        scaleup_domain_size=None,
        network_bytes_per_s=50e9,
    )
    of = snapshot(systems=[desks])
    small = Deployment(DESK.slug, engine="llama.cpp", weight_format="gguf-q4_k_m", system="host-1x-bolt-desk")
    assert layouts(planned(of=of, fixed=small)) == {(1, 1)}
    assert layouts(planned(of=of, fixed=replace(small, tensor_parallel=2))) == set()


def test_stages_span_machines_of_one_accelerator_only_where_no_others_are_on_sale() -> None:
    single = replace(SYSTEMS[0], slug="big-1", accelerator_count=1, scaleup_domain_size=1.0)
    cheap = replace(OFFERS[0], system="big-1", instance_type="big-1", accelerator_count=1, usd_per_hour=1.0)
    in_stages = {"tensor_parallel": 1, "pipeline_parallel": 2}
    both = rented(of=snapshot(systems=(*SYSTEMS, single), offers=(*OFFERS, cheap)), fixed=in_stages)
    assert set(both.accelerators_per_node.tolist()) == {8.0}
    alone = rented(of=snapshot(systems=(single,), offers=(cheap,)), fixed=in_stages)
    assert set(alone.accelerators_per_node.tolist()) == {1.0}


def test_ranks_of_a_group_share_a_link_of_their_domain_or_the_slots_of_one_machine() -> None:
    """Links among four of eight: a group of eight would cross them, stages do not; slots reach all of a machine."""
    fours = snapshot(systems=[replace(s, scaleup_domain_size=4.0) if s.accelerator == BIG.slug else s for s in SYSTEMS])
    assert layouts(rented(of=fours)) == {(1, 1), (2, 1), (4, 1)}
    assert layouts(rented(of=fours, fixed={"accelerators_per_replica": 8})) == {(2, 4), (4, 2)}
    assert (8, 1) in layouts(rented())
