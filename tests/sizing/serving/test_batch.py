"""The time of a batch, worked by hand: its passes, what comes once, and the host that makes it ready."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.model.sample import SampleWork
from app.sizing.serving.batch import batch_cycle_s, batch_terms, plan_padding_factors, request_sample_work
from app.sizing.serving.host import HostWork
from app.sizing.serving.plans import Plans
from app.sizing.workload import Lengths
from tests.examples import col, registered
from tests.sizing.serving.given import DENSE, MIXTURE, on_big, varied

ENCODER = registered("BAAI/bge-large-en-v1.5")
# Four passes of 2 TFLOP over 30 layers that move 4 GB, and half a TFLOP once.
PICTURE = SampleWork(flops=2e12, passes=4.0, extra_flops=0.5e12, moved_bytes=4e9, live_bytes=1e9, layers=30)


def plans(**columns: float) -> Plans:
    """One device: 3 GB of weights, of which 2 are read in every pass."""
    known = {"weights_bytes": 3e9, "streamed_bytes": 2e9} | columns
    return replace(on_big(), **{name: col(value) for name, value in known.items()})  # type: ignore[arg-type]


def test_terms_of_a_batch() -> None:
    found = batch_terms(PICTURE, plans())
    assert found.flops_slope_s[0] == pytest.approx(2e12 / (1e15 * 0.8 * 0.9))
    assert found.extra_slope_s[0] == pytest.approx(0.5e12 / (1e15 * 0.8 * 0.9))
    assert found.bytes_slope_s[0] == pytest.approx(4e9 / (3.2e12 * 0.85))
    assert found.weights_s[0] == pytest.approx(2e9 / (3.2e12 * 0.85))
    assert found.once_s[0] == pytest.approx(1e9 / (3.2e12 * 0.85))
    assert found.launch_s[0] == pytest.approx(30 * 10e-6 / 2)
    assert (found.host_slope_s[0], found.request_s[0], found.exponent[0], found.passes) == (0, 300e-6, 3, 4)


def test_convolutions_and_decoders_achieve_other_shares() -> None:
    convolved = batch_terms(replace(PICTURE, convolutional=True), plans())
    assert convolved.flops_slope_s[0] == pytest.approx(2e12 / (1e15 * 0.45))
    assert convolved.extra_slope_s[0] == pytest.approx(0.5e12 / (1e15 * 0.45))
    decoding = batch_terms(replace(PICTURE, decodes=True), plans())
    assert decoding.bytes_slope_s[0] == pytest.approx(4e9 / (3.2e12 * 0.6))
    assert decoding.host_slope_s[0] == 20e-6


@pytest.mark.parametrize(("ratio", "width"), [(2.0, 0.5), (1.2, 1.0), (1.0, 1.0), (0.9, 1.0), (0.5, 2.0)])
def test_activations_are_as_wide_as_what_is_multiplied(ratio: float, width: float) -> None:
    found = batch_terms(PICTURE, plans(linear_flops_per_s=ratio * 1e15))
    assert found.bytes_slope_s[0] == pytest.approx(4e9 * width / (3.2e12 * 0.85))


def test_seconds_of_a_batch() -> None:
    """With an exponent of one, multiplying and moving add up."""
    terms = replace(
        batch_terms(PICTURE, plans()),
        flops_slope_s=col(0.010),
        bytes_slope_s=col(0.002),
        host_slope_s=col(0.0003),
        weights_s=col(0.004),
        once_s=col(0.05),
        launch_s=col(0.006),
        extra_slope_s=col(0.07),
        exponent=col(1),
        request_s=col(0.009),
    )
    one_pass = 3 * 0.010 + 0.004 + 3 * 0.002 + 0.006 + 3 * 0.0003
    assert batch_cycle_s(terms, col(3))[0] == pytest.approx(4 * one_pass + 3 * 0.07 + 0.05 + 0.009)


def test_a_request_to_an_encoder_is_a_sample() -> None:
    """800 tokens; the live tensors of every layer, written and read."""
    found = request_sample_work(varied())
    live = 800 * 2 * (6 * 1024 + 2 * 4096)
    assert found.live_bytes == live
    assert found.moved_bytes == 2 * live * 4  # layers
    # each token multiplies every matrix, and attends to those before it
    assert found.flops == pytest.approx(2 * DENSE.matmul_params * 800 + DENSE.prefill_attention_flops(800))
    assert (found.layers, found.unit) == (4, "request")
    assert request_sample_work(varied(model=replace(MIXTURE, sample=PICTURE))) is PICTURE


def test_a_host_sets_the_pace_where_it_is_slower_and_adds_up_where_it_is_the_device() -> None:
    alone = batch_terms(PICTURE, plans())
    device = batch_cycle_s(alone, col(8))[0]

    def of(host_s: float, cores: float, *, in_turn: bool, serial_s: float = 0.0) -> float:
        host = HostWork(col(host_s), col(cores), col(serial_s), np.array([in_turn]))
        return float(batch_cycle_s(batch_terms(PICTURE, plans(), host=host), col(8))[0])

    assert of(device / 8, 4.0, in_turn=False) == pytest.approx(device)
    assert of(device, 4.0, in_turn=False) == pytest.approx(2 * device)
    assert of(device / 8, 4.0, in_turn=True) == pytest.approx(1.25 * device)
    # one thread hands out eight requests in three times as long, however many cores there are
    for in_turn in (False, True):
        assert of(device / 8, 1e9, in_turn=in_turn, serial_s=3 * device / 8) == pytest.approx(3 * device)


def test_shorter_texts_are_padded_half_way_to_a_long_one() -> None:
    assumed, mixed = Assumptions(), Lengths(200.0, 600.0)
    texts = varied(model=ENCODER, input_tokens=mixed, output_tokens=Lengths(0.0))
    assert plan_padding_factors(texts, plans(), assumed).tolist() == [1.0]  # this engine packs them
    table = plans()
    stacks = replace(table.stacks.table, packs=np.zeros(len(table.stacks.table), dtype=bool))
    padded = replace(table, stacks=replace(table.stacks, table=stacks))
    assert plan_padding_factors(texts, padded, assumed)[0] == pytest.approx(2.0)
    assert plan_padding_factors(replace(texts, input_tokens=Lengths(200.0)), padded, assumed).tolist() == [1.0]
    assert plan_padding_factors(varied(input_tokens=mixed), padded, assumed).tolist() == [1.0]  # a stream of tokens
    plain, longer = (batch_terms(PICTURE, padded, padding_factor=col(p)) for p in (1.0, 2.0))
    assert longer.flops_slope_s[0] == pytest.approx(2 * plain.flops_slope_s[0])
    assert longer.bytes_slope_s[0] == pytest.approx(2 * plain.bytes_slope_s[0])
