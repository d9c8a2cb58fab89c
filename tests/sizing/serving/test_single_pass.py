"""The time of a batch, worked by hand: its passes, what comes once, and the host that makes it ready. What a host
does for a request, by hand; and that it bounds what may be promised. Work in a single pass, worked by hand:
memory, the largest batch, and latencies under load.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, column_names
from app.sizing.model.sample import SampleWork
from app.sizing.question import Question
from app.sizing.serving.interfaces import Memory, OperatingPoint, Settings
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.margins import Margins
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import measure_plans
from app.sizing.serving.single_pass import (
    BatchSpeed,
    HostWork,
    audio_preprocess_s,
    batch_cycle_s,
    batch_memory,
    batch_terms,
    estimate_host_work,
    image_decode_s,
    plan_padding_factors,
    plan_vcpus_per_accelerator,
    preprocess_s,
    request_sample_work,
    single_pass_operating_point,
    single_pass_speed,
    unloaded_single_pass,
)
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import col, registered
from tests.sizing.serving.given import DENSE, MIXTURE, on_big, varied
from tests.sizing.small import ACCELERATORS, BIG, snapshot

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
    assert decoding.bytes_slope_s[0] == pytest.approx(4e9 / (3.2e12 * 0.6 * 0.5))
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


ASSUMED = Assumptions()
MODELS = ("sentence-transformers/all-MiniLM-L6-v2", "openai/whisper-large-v3", "microsoft/resnet-50")


def asking(name: str, **changed: Any) -> InferenceWorkload:
    return varied(model=registered(name), **{"input_tokens": Lengths(256.0), "output_tokens": Lengths(0.0)} | changed)


def on(vcpus: float, *, processor: bool = False) -> Plans:
    """One accelerator of eight in a machine with a number of threads; `processor`: it is the host's own processor."""
    table = on_big()
    machines = replace(table.machines.table, vcpus=np.full(len(table.machines.table), vcpus))
    types = replace(table.types.table, processor=np.full(len(table.types.table), processor))
    return replace(
        table,
        machines=replace(table.machines, table=machines),
        types=replace(table.types, table=types),
    )


def host_of(workload: InferenceWorkload, plans: Plans, assumed: Assumptions = ASSUMED) -> HostWork:
    return estimate_host_work(workload, request_sample_work(workload), plans, assumed)


def test_texts_are_tokenised_pictures_unpacked_and_sound_heard() -> None:
    texts, speech, pictures = (asking(name) for name in MODELS)
    assert preprocess_s(texts, request_sample_work(texts), ASSUMED) == pytest.approx(256 / 6e5)
    assert (
        preprocess_s(speech, request_sample_work(speech), ASSUMED)
        == audio_preprocess_s(request_sample_work(speech), ASSUMED)
        == pytest.approx(0.030)
    )
    # 224 x 224 are fewer than the pixels sent
    assert (
        preprocess_s(pictures, request_sample_work(pictures), ASSUMED)
        == image_decode_s(request_sample_work(pictures), ASSUMED)
        == 0.2 / 60
    )
    large = replace(request_sample_work(pictures), pixels=6e6)
    assert image_decode_s(large, ASSUMED) == pytest.approx(0.1)


def test_what_is_sent_ready_made_needs_no_host() -> None:
    texts = asking(MODELS[0])
    assert host_of(texts, on(64)).host_s[0] == pytest.approx(256 / 6e5 + 0.0002)
    assert host_of(texts, on(64), replace(ASSUMED, host_work_share=0.0)).host_s.tolist() == [0.0]


def test_accelerators_of_a_machine_share_its_threads() -> None:
    texts = asking(MODELS[0])
    assert plan_vcpus_per_accelerator(on(192), ASSUMED).tolist() == [24]
    assert host_of(texts, on(192)).host_cores[0] == pytest.approx(24 * 0.6)
    assert plan_vcpus_per_accelerator(on(np.nan), ASSUMED).tolist() == [16]
    assert plan_vcpus_per_accelerator(on(np.nan, processor=True), ASSUMED).tolist() == [128]
    assert host_of(texts, on(192, processor=True)).in_turn.tolist() == [True]


def capacity(workload: InferenceWorkload, plans: Plans, assumed: Assumptions = ASSUMED) -> float:
    question = Question(workload, assumptions=assumed)
    return float(measure_plans(question, workload, plans, Settings())[1].capacity_per_s[0])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("processor", [False, True])
@pytest.mark.parametrize("load", [Load.OPEN, Load.OFFLINE])
def test_no_rate_beats_its_cores_and_more_of_them_are_never_slower(name: str, processor: bool, load: Load) -> None:
    workload = asking(name, load=load, slo=Slo(None, None, 10.0, 95))
    before = 0.0
    for vcpus in (2.0, 8.0, 64.0, 512.0, 1e5):
        plans = on(vcpus, processor=processor)
        host, found = host_of(workload, plans), capacity(workload, plans)
        assert before <= found <= host.host_cores[0] / host.host_s[0] * (1 + 1e-9)
        assert found <= 50_000 * (1 + 1e-9)  # that one thread hands out
        before = found
    alone = capacity(workload, on(8.0, processor=processor), replace(ASSUMED, host_work_share=0.0))
    assert before <= alone * (1 + 1e-9)  # a host adds nothing to what the device does


@pytest.mark.parametrize("name", MODELS)
def test_nothing_beats_the_roofline_of_the_device(name: str) -> None:
    workload, plans = asking(name, load=Load.OFFLINE), on(1e5)
    question = Question(workload)
    memory, speed = measure_plans(question, workload, plans, Settings())
    kind = serving_backend(workload)
    operation = kind.operating_point(workload, memory, speed, np.ones(1))
    best = kind.hardware_bound(workload, plans, memory, speed, operation, ASSUMED)
    assert speed.capacity_per_s[0] <= best.rate_per_s[0]
    work = request_sample_work(workload)
    assert best.rate_per_s[0] <= plans.linear_flops_per_s[0] / work.total_flops


def test_a_small_host_limits_small_networks() -> None:
    """MiniLM's 256 tokens are 0.6 ms of a core: 1.2 cores do 1,900 a second however fast the device is."""
    workload = asking(MODELS[0], load=Load.OFFLINE)
    assert capacity(workload, on(16.0)) == pytest.approx(1.2 / (256 / 6e5 + 0.0002))


READY_MADE = ASSUMED.with_overrides({"host_work_share": 0.0})
# Four passes of 2 TFLOP over 30 layers that move 4 GB, and half a TFLOP once.


def test_a_batch_takes_what_weights_and_runtime_leave() -> None:
    found = batch_memory(PICTURE, plans(), ASSUMED, Settings())
    assert found.weights_bytes[0] == pytest.approx(3e9 * 1.002)
    assert found.activation_bytes[0] == pytest.approx(1.2e9)
    assert found.overhead_bytes[0] == pytest.approx(0.6 * GIB)
    assert found.capacity_bytes[0] == 80 * GIB
    assert found.usable_bytes[0] == pytest.approx(0.92 * 80 * GIB)
    assert found.needed_bytes[0] == pytest.approx(3e9 * 1.002 + 1.2e9 + 0.6 * GIB)
    assert found.sequences.tolist() == [np.floor((0.92 * 80 * GIB - 3e9 * 1.002 - 0.6 * GIB) / 1.2e9)]
    assert batch_memory(PICTURE, plans(), ASSUMED, Settings(max_sequences=col(7))).sequences.tolist() == [7]
    assert batch_memory(PICTURE, plans(), ASSUMED, Settings(max_sequences=col(7e9))).sequences[0] == found.sequences[0]
    half = batch_memory(PICTURE, plans(), ASSUMED, Settings(memory_fraction=col(0.5)))
    assert (half.usable_bytes[0], half.memory_fraction[0]) == (0.5 * 80 * GIB, 0.5)
    none = batch_memory(replace(PICTURE, live_bytes=0.0), plans(), ASSUMED, Settings())
    assert none.sequences.tolist() == [256]
    assert batch_memory(replace(PICTURE, live_bytes=1e6), plans(), ASSUMED, Settings()).sequences.tolist() == [256]
    assert batch_memory(replace(PICTURE, live_bytes=1e12), plans(), ASSUMED, Settings()).sequences.tolist() == [1]


def test_a_tiny_or_shared_device_gives_less() -> None:
    tiny = on_big(of=snapshot(accelerators=[replace(BIG, memory_bytes=4 * GIB), *ACCELERATORS[1:]]))
    assert batch_memory(PICTURE, tiny, ASSUMED, Settings()).overhead_bytes[0] == pytest.approx(0.12 * 4 * GIB)
    shared = on_big(of=snapshot(accelerators=[replace(BIG, memory_is_shared=True), *ACCELERATORS[1:]]))
    assert batch_memory(PICTURE, shared, ASSUMED, Settings()).memory_fraction.tolist() == [0.75]


def memory(sequences: float) -> Memory:
    columns: dict[str, Any] = dict.fromkeys(column_names(Memory), np.zeros(1))
    return Memory(**columns | {"sequences": col(sequences)})


# A batch of b takes 20 ms and 5 ms for each sample.
FLAT = SampleWork(flops=0.005 * 1e15 * 0.8 * 0.9, layers=4)


NO_HOST = HostWork.without_host_work(1)


def judged(
    load: Load, *, e2e_s: float | None = None, most: float = 64, host: HostWork = NO_HOST, **changed: Any
) -> tuple[BatchSpeed, OperatingPoint]:
    workload = varied(load=load, slo=Slo(None, None, e2e_s, 95), **changed)
    table = plans(weights_bytes=0.0, streamed_bytes=0.0)
    alone = unloaded_single_pass(workload, table, FLAT, READY_MADE)
    speed = single_pass_speed(workload, memory(most), alone)
    terms = replace(speed.terms, launch_s=col(0.0), request_s=col(0.020), host_work=host)
    speed = replace(speed, unloaded=replace(speed.unloaded, terms=terms))
    return speed, single_pass_operating_point(workload, memory(most), speed, col(2))


OVERHEAD = 4 * 10e-6 / 2 + 300e-6  # launches and one step, of the batch as it is judged


@pytest.mark.parametrize(
    ("load", "e2e_s", "batch"),
    [
        (Load.OPEN, None, 64),
        (Load.OPEN, 0.2, 19),  # two batches of 19 * 5 ms and overhead fit; of 20 they do not
        (Load.CLOSED, 0.2, 19),
        (Load.OPEN, 0.001, 1),
        (Load.OFFLINE, 0.2, 64),
        (Load.BATCH, 0.2, 64),
    ],
)
def test_the_largest_batch_two_of_which_fit_into_the_limit(load: Load, e2e_s: float | None, batch: float) -> None:
    found, _ = judged(load, e2e_s=e2e_s)
    assert found.slo_batch.tolist() == [batch]
    assert found.capacity_per_s[0] == pytest.approx(batch / (batch * 0.005 + OVERHEAD))
    assert found.saturation_per_s[0] == pytest.approx(64 / (64 * 0.005 + OVERHEAD))
    assert found.unloaded.fastest_e2e_s[0] == pytest.approx((0.005 + OVERHEAD) * (2 if load is Load.OPEN else 1))
    assert found.unloaded.e2e_limit_s[0] == (np.inf if e2e_s is None else e2e_s)


def test_a_rate_fills_batches_of_its_own() -> None:
    """100 a second each: b = 100 (20 ms + 5 ms b) at b = 4."""
    speed, found = judged(Load.OPEN, peak_per_s=200.0)
    assert found.rate_per_s.tolist() == [100]
    assert found.batch[0] == pytest.approx(4, rel=1e-3)
    assert found.utilization[0] == pytest.approx(100 / speed.capacity_per_s[0])
    busy = 100 / speed.saturation_per_s[0]
    assert found.e2e_p50_s[0] == pytest.approx((0.020 + 4 * 0.005) * (1 + 0.5 * busy), rel=1e-3)
    crowd = 4 + 1.6448536 * 2
    assert found.e2e_p95_s[0] == pytest.approx((0.020 + crowd * 0.005) * (1 + 0.95 * busy), rel=1e-3)
    bursty = judged(Load.OPEN, peak_per_s=200.0, burstiness=2.0)[1]
    assert bursty.e2e_p95_s[0] == pytest.approx((0.020 + (4 + 1.6448536 * 4) * 0.005) * (1 + 0.95 * busy), rel=1e-3)
    full = judged(Load.OPEN, peak_per_s=200.0, most=5)[1]
    assert full.e2e_p99_s[0] < (0.020 + 5 * 0.005) * 2
    late = judged(Load.OPEN, peak_per_s=1000.0)[1]
    assert np.isinf(late.e2e_p50_s[0])
    idle = judged(Load.OPEN, peak_per_s=0.2)[1]
    assert idle.batch.tolist() == [1]
    assert idle.e2e_p50_s[0] == pytest.approx(0.025, rel=1e-2)


@pytest.mark.parametrize(("in_flight", "batch", "wanted"), [(9.0, 5, 5), (200.0, 64, 100), (0.0, 64, 64), (1.0, 1, 1)])
def test_what_is_in_flight_runs_as_one_batch(in_flight: float, batch: float, wanted: float) -> None:
    _, found = judged(Load.CLOSED, in_flight=in_flight)
    assert found.batch.tolist() == [batch]
    assert found.rate_per_s[0] == pytest.approx(batch / (0.020 + batch * 0.005))
    assert found.e2e_p50_s[0] == found.e2e_p99_s[0] == pytest.approx(0.020 + batch * 0.005)
    assert found.utilization[0] == pytest.approx(wanted / 64)


def hosted(host_s: float, cores: float, *, in_turn: bool = False) -> HostWork:
    return HostWork(col(host_s), col(cores), col(0.0), np.array([in_turn]))


def test_batches_follow_one_another_as_fast_as_the_host_makes_them_ready() -> None:
    """12 of 20 ms + 5 ms each take 80 ms; a host of two cores needs 120 ms for them."""
    _, found = judged(Load.CLOSED, in_flight=24.0, host=hosted(0.020, 2.0))
    assert found.batch.tolist() == [12]
    assert found.rate_per_s[0] == pytest.approx(12 / (0.020 + 0.120))  # who waits for an answer sends no more
    assert found.e2e_p50_s[0] == pytest.approx(0.020 + 0.120)
    _, quick = judged(Load.CLOSED, in_flight=24.0, host=hosted(0.002, 2.0))
    assert quick.e2e_p50_s[0] == pytest.approx(0.002 + 0.080)
    _, on_it = judged(Load.CLOSED, in_flight=24.0, host=hosted(0.002, 2.0, in_turn=True))
    assert on_it.e2e_p50_s[0] == pytest.approx(0.002 + 0.080 + 0.012)


def test_a_request_is_made_ready_before_it_waits() -> None:
    workload, table = varied(load=Load.OPEN, slo=Slo(None, None, 0.2, 95)), plans()
    slow = replace(ASSUMED, server_request_ms=20.0)
    alone = [unloaded_single_pass(workload, table, FLAT, of).fastest_e2e_s[0] for of in (READY_MADE, slow)]
    reading = 800 / 6e5 if workload.model.kind == "encoder" else 0.0
    assert alone[1] == pytest.approx(alone[0] + reading + 0.020)


@pytest.mark.parametrize("load", [Load.OPEN, Load.CLOSED, Load.OFFLINE])
def test_a_margin_divides_the_rate_and_the_limit_of_a_sample(load: Load) -> None:
    """Twice as slow as predicted: half of the rate, and batches that fit into half of the limit."""
    workload, table = varied(load=load, slo=Slo(None, None, 0.4, 95)), plans(weights_bytes=0.0, streamed_bytes=0.0)
    twice = Margins(col(2), col(1), col(1), col(0))
    alone = unloaded_single_pass(workload, table, FLAT, READY_MADE, twice)
    found = single_pass_speed(workload, memory(64), alone)
    batch = 64 if load is Load.OFFLINE else 19  # as with a limit of 0.2 s
    assert alone.e2e_limit_s.tolist() == [0.2] and found.slo_batch.tolist() == [batch]
    assert found.capacity_per_s[0] == pytest.approx(batch / (batch * 0.005 + OVERHEAD) / 2)
    assert found.saturation_per_s[0] == pytest.approx(64 / (64 * 0.005 + OVERHEAD))
