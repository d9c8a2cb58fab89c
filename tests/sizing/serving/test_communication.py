"""What collectives and hand-overs achieve, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.question import Deployment
from app.sizing.serving.communication import LinkUse, link_speed, transfer_and_latency_s
from app.sizing.serving.step import step_terms
from tests.examples import col
from tests.sizing.serving.given import achieved, links_of, on_big, planned, step_of
from tests.sizing.serving.test_layouts import GIANT
from tests.sizing.small import BIG, OFFERS, SYSTEMS, snapshot


def test_links_achieve_a_share_of_their_rate_after_a_latency() -> None:
    """A slot, a scale-up link whose stages lie in two machines, and a lone device."""
    link = LinkUse(
        pcie=np.array([True, False, False]),
        link_bytes_per_s=col(32e9, 450e9, 0),
        across=np.array([False, True, False]),
        network_bytes_per_s=col(50e9, 25e9, 12e9),
        linked_ranks=col(2, 8, 1),
        exchange_share=0.7,
    )
    found = link_speed(link, achieved(3))
    assert found.collective_latency_s.tolist() == [22e-6, 8e-6, 8e-6]
    assert found.collective_bytes_per_s[:2].tolist() == pytest.approx([32e9 * 0.625, 450e9 * 0.78])
    assert found.collective_bytes_per_s[2] > 1e14  # never asked
    assert found.hop_latency_s.tolist() == [22e-6, 15e-6, 8e-6]
    assert found.hop_bytes_per_s[:2].tolist() == pytest.approx([32e9 * 0.625, 25e9 * 0.9])


def test_stages_talk_over_the_network_where_a_replica_leaves_its_machine_and_its_domain() -> None:
    for pipeline, across in ((1, False), (4, True)):
        found = links_of(on_big(tensor_parallel=8, pipeline_parallel=pipeline))
        assert found.across.tolist() == [across]
        assert found.pcie.tolist() == [False]
        assert found.link_bytes_per_s.tolist() == [450e9]
        assert found.network_bytes_per_s.tolist() == [50e9]


def test_a_domain_beyond_one_machine_needs_no_network() -> None:
    rack = [replace(s, scaleup_domain_size=16.0) if s.accelerator == BIG.slug else s for s in SYSTEMS]
    of = snapshot(systems=rack, offers=OFFERS)
    for pipeline, across in ((2, False), (4, True)):
        layout = Deployment(
            BIG.slug, provider="sky", tensor_parallel=8, pipeline_parallel=pipeline, engine="vllm", weight_format="bf16"
        )
        assert set(links_of(planned(fixed=layout, of=of)).across.tolist()) == {across}


def test_an_unknown_network_is_taken_for_a_hundred_gigabits() -> None:
    layout = Deployment("acme-card", tensor_parallel=4, system="host-4x-acme-card", engine="vllm", weight_format="bf16")
    found = links_of(planned(fixed=layout))
    assert found.pcie.tolist() == [True]
    assert found.network_bytes_per_s.tolist() == [12.5e9]


def test_tensor_parallel_over_machines_adds_up_inside_them_before_it_crosses_the_network() -> None:
    """Sixteen ranks on two machines of eight, and eight on one: two all-reduces in each of 126 layers."""
    wide, one = on_big(GIANT, tensor_parallel=16), on_big(GIANT, tensor_parallel=8)
    link, speed = links_of(wide), link_speed(links_of(wide), achieved())
    assert link.linked_ranks.tolist() == links_of(one).linked_ranks.tolist() == [8]
    passed, waited = transfer_and_latency_s(col(252), col(32768), col(16), col(1), link, speed)
    inside = 2 * 7 / 8 * 32768 / (450e9 * 0.78)
    across = 2 * 1 / 2 * 32768 / 8 / (50e9 * 0.9)
    assert passed[0] == pytest.approx(252 * (inside + across))
    assert waited[0] == pytest.approx(252 * (8e-6 + 2 * 15e-6))
    terms = [step_terms(step_of(GIANT, plans, context_tokens=800), achieved()) for plans in (wide, one)]
    assert terms[0].links_slope_s[0] == pytest.approx(passed[0])
    assert terms[0].links_fixed_s[0] == pytest.approx(waited[0])
    assert terms[0].links_fixed_s[0] > terms[1].links_fixed_s[0] > 0
    assert terms[0].dense_s[0] == pytest.approx(terms[1].dense_s[0] / 2)


def test_a_domain_of_several_machines_is_one_machine_to_its_ranks() -> None:
    rack = [replace(s, scaleup_domain_size=16.0) if s.accelerator == BIG.slug else s for s in SYSTEMS]
    of = snapshot(systems=rack, offers=OFFERS)
    layout = Deployment(BIG.slug, provider="sky", tensor_parallel=16, engine="vllm", weight_format="bf16")
    assert set(links_of(planned(GIANT, fixed=layout, of=of)).linked_ranks) == {16}
