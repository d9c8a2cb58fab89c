"""What somebody wants to run, in numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.errors import Unanswerable
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.workload import (
    REDUNDANCIES,
    Arrivals,
    FailureDomain,
    InferenceWorkload,
    Lengths,
    Limits,
    Load,
    PrefixHits,
    Redundancy,
    build_inference_workload,
)
from tests.examples import LLAMA_8B, registered


def test_a_length_distribution_passes_through_its_mean_and_p95() -> None:
    lengths = Lengths(1024, 3000)
    assert lengths.quantile(95) == pytest.approx(3000)
    mean = np.exp(np.log(1024) - lengths.sigma**2 / 2 + lengths.sigma**2 / 2)
    assert mean == pytest.approx(1024)
    assert Lengths(500).quantile(99) == 500


@pytest.mark.parametrize(
    ("label", "zones", "domain", "lost"),
    [
        # (domains, machines, zones) that may be lost at once
        ("none", 1, None, (0, 0, 0)),
        ("none", 3, None, (0, 0, 0)),
        ("n+1", 1, None, (1, 1, 0)),
        ("n+2", 1, "accelerator", (2, 0, 0)),
        ("n+2", 2, None, (2, 2, 1)),  # any one zone, whatever the domain
        ("n+2", 2, "accelerator", (2, 0, 1)),
        ("n+2", 3, "zone", (2, 2, 2)),
        ("2n", 1, None, (1, 1, 0)),
        ("2n", 2, "zone", (1, 1, 1)),
        ("none", 1, "zone", (0, 0, 0)),
    ],
)
def test_what_may_be_lost(label: str, zones: int, domain: str | None, lost: tuple[int, int, int]) -> None:
    found = Redundancy.from_label(label, zones=zones, domain=domain)
    assert (found.domains_lost, found.machines_lost, found.zones_lost) == lost
    assert found.label == label
    assert found.domain == (domain or "machine")


@pytest.mark.parametrize(("label", "zones"), [("n+1", 1), ("2n", 1), ("n+2", 2)])
def test_a_zone_must_be_left(label: str, zones: int) -> None:
    with pytest.raises(Unanswerable, match=f"zones to at least {zones + 1}, or set failure_domain to machine"):
        Redundancy.from_label(label, zones=zones, domain="zone")
    assert all(Redundancy.from_label(each, zones=3, domain="zone").zones_lost < 3 for each in REDUNDANCIES)


def test_another_number_of_spares_stays_in_the_same_zones() -> None:
    three = Redundancy(double=True, zones=3, domain=FailureDomain.ZONE)
    assert three.with_spare(1) == Redundancy(spare=1, zones=3, domain=FailureDomain.ZONE)
    assert Redundancy(domain=FailureDomain.ZONE).with_spare(1) == Redundancy(spare=1)
    alone = Redundancy(domain=FailureDomain.ACCELERATOR)
    assert alone.with_spare(1) == replace(alone, spare=1)


ASSUMED = Assumptions()
RATE = Arrivals(Load.OPEN, peak_per_s=2.0)
CLIPS, PICTURES = registered("Wan-AI/Wan2.1-T2V-1.3B-Diffusers"), registered("stabilityai/stable-diffusion-xl-base-1.0")
SPEECH, CLASSES = registered("openai/whisper-large-v3"), registered("microsoft/resnet-50")


def entries(workload: InferenceWorkload) -> dict[str, Assumed]:
    return {a.name: a for a in workload.derived}


@pytest.mark.parametrize(
    ("arrivals", "limits_s"),
    [
        (RATE, (2.0, 0.1)),
        (Arrivals(Load.CLOSED, in_flight=1.0), (10.0, 0.2)),
        (Arrivals(Load.CLOSED, in_flight=64.0), (2.0, 0.1)),
        (Arrivals(Load.BATCH, in_flight=8.0), (None, None)),
        (Arrivals(Load.OFFLINE), (None, None)),
    ],
)
def test_people_are_not_kept_waiting_and_machines_may_be(arrivals: Arrivals, limits_s: tuple[float, float]) -> None:
    workload = build_inference_workload(LLAMA_8B, arrivals, ASSUMED)
    assert (workload.slo.ttft_s, workload.slo.tpot_s) == limits_s
    shown = {n: a.value for n, a in entries(workload).items() if n.startswith("slo.")}
    if limits_s[0]:
        assert shown == {"slo.ttft_ms": limits_s[0] * 1e3, "slo.tpot_ms": limits_s[1] * 1e3, "slo.percentile": 95.0}
    else:
        assert not shown


def test_a_long_prompt_may_be_read_longer() -> None:
    def limit_s(tokens: float) -> float | None:
        return build_inference_workload(LLAMA_8B, RATE, ASSUMED, input_tokens=Lengths(tokens)).slo.ttft_s

    assert limit_s(100) == limit_s(3000) == 2.0
    assert limit_s(9400) == pytest.approx(6, rel=0.01)
    assert limit_s(32000) == pytest.approx(20.48)


@pytest.mark.parametrize(("model", "limit_s"), [(PICTURES, 20.0), (CLIPS, 600.0), (SPEECH, 15.0), (CLASSES, 1.0)])
def test_each_kind_of_work_in_one_piece_has_its_own_limit(model: ModelArchitecture, limit_s: float) -> None:
    slo = build_inference_workload(model, RATE, ASSUMED).slo
    assert slo.ttft_s is slo.tpot_s is None
    assert slo.e2e_s == pytest.approx(limit_s)
    assert build_inference_workload(model, Arrivals(Load.OFFLINE), ASSUMED).slo.e2e_s is None


def test_a_limit_that_was_asked_for_stands_alone() -> None:
    workload = build_inference_workload(LLAMA_8B, RATE, ASSUMED, limits=Limits(tpot_s=0.05))
    assert (workload.slo.ttft_s, workload.slo.tpot_s, workload.slo.percentile) == (None, 0.05, 95)
    shown = entries(workload)
    assert "slo.ttft_ms" not in shown
    assert (shown["slo.tpot_ms"].asked, shown["slo.percentile"].asked) == (True, False)


def test_given_values_are_marked_as_requested_and_the_rest_as_chosen() -> None:
    shown = entries(build_inference_workload(LLAMA_8B, RATE, ASSUMED, input_tokens=Lengths(800), average_per_s=0.5))
    asked = {name for name, a in shown.items() if a.asked}
    assert asked == {"input_tokens", "average_requests_per_s"}
    assert (shown["input_tokens"].value, shown["output_tokens"].value) == (800, 256)
    assert shown["max_context_tokens"].value == 800 + 2 * 256  # an answer's spread is assumed, the prompt has none
    for a in shown.values():
        assert a.bounds is None or a.bounds[0] <= float(a.value) <= a.bounds[1]


def test_an_encoder_answers_no_tokens() -> None:
    workload = build_inference_workload(registered("BAAI/bge-large-en-v1.5"), RATE, ASSUMED)
    assert (workload.output_tokens.mean, workload.max_context_tokens) == (0, 512)
    assert "output_tokens" not in entries(workload)


def test_what_is_cached_waits_for_the_next_turn() -> None:
    usual = build_inference_workload(LLAMA_8B, RATE, ASSUMED, hits=PrefixHits(0.9, 0.2))
    assert (usual.cached_prefix_fraction, usual.shared_prefix_fraction, usual.turn_gap_s) == (0.9, 0.2, 60)
    assert usual.keeps_prefixes
    assert not entries(usual)["turn_gap_s"].asked
    given = build_inference_workload(LLAMA_8B, RATE, ASSUMED, hits=PrefixHits(0.9, turn_gap_s=5.0))
    assert (given.turn_gap_s, entries(given)["turn_gap_s"].asked) == (5, True)
    assert not given.without_hits.keeps_prefixes
    for nothing in (
        build_inference_workload(LLAMA_8B, RATE, ASSUMED),
        build_inference_workload(LLAMA_8B, Arrivals(Load.OFFLINE), ASSUMED, hits=PrefixHits(0.9)),
    ):
        assert nothing.turn_gap_s == 0
        assert not nothing.keeps_prefixes
        assert "turn_gap_s" not in entries(nothing)
