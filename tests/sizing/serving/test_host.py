"""What a host does for a request, by hand; and that it bounds what may be promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.question import Question
from app.sizing.serving.batch import request_sample_work
from app.sizing.serving.host import (
    HostWork,
    audio_preprocess_s,
    estimate_host_work,
    image_decode_s,
    plan_vcpus_per_accelerator,
    preprocess_s,
)
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.measured import Settings
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import measure_plans
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import registered
from tests.sizing.serving.given import on_big, varied

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
