"""Relations of single-pass work between device and host, of whatever is asked of the real catalogue."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import Performance
from app.sizing.serving.single_pass import request_sample_work
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import CHAT, registered

MODELS = [
    registered(name)
    for name in (
        "sentence-transformers/all-MiniLM-L6-v2",
        "BAAI/bge-m3",
        "BAAI/bge-reranker-v2-m3",
        "openai/whisper-large-v3",
        "microsoft/resnet-50",
        "stabilityai/stable-diffusion-xl-base-1.0",
    )
]
ASKED = st.builds(
    lambda model, load, count, tokens, longest: replace(
        CHAT,
        model=model,
        load=load,
        in_flight=float(count),
        peak_per_s=float(count),
        average_per_s=float(count) / 2,
        input_tokens=Lengths(tokens, tokens * longest),
        output_tokens=Lengths(0.0),
        slo=Slo(None, None, 60.0, 95.0),
        max_context_tokens=tokens * longest,
    ),
    st.sampled_from(MODELS),
    st.sampled_from([Load.OPEN, Load.CLOSED, Load.OFFLINE]),
    st.sampled_from([1, 8, 300]),
    st.floats(4, 500),
    st.sampled_from([1.0, 3.0]),
)
ACCELERATORS = st.sampled_from(
    ["nvidia-t4", "nvidia-l4", "nvidia-h100-sxm5-80gb", "amd-mi300x", "intel-xeon-6980p", "apple-m4-max-40c"]
)
# What makes a host quicker.
QUICKER = st.sampled_from(
    [
        ("tokeniser_tokens_per_s", 10.0),
        ("image_megapixels_per_s", 10.0),
        ("audio_s_per_s", 10.0),
        ("server_request_ms", 0.1),
        ("server_serial_us", 0.1),
        ("cores_per_vcpu", 1.5),
        ("host_work_share", 0.5),
    ]
)
ROUNDING = 1 + 1e-6


def performance(
    workload: InferenceWorkload, accelerator: str, catalog: Catalog, assumed: Assumptions | None = None
) -> Performance | None:
    """What one replica does; None where it does not run or fit."""
    question = Question(workload, assumptions=assumed or Assumptions())
    return estimate_deployment(question, Deployment(accelerator, replicas=1, spare_replicas=0), catalog).performance


def rate(found: Performance | None) -> float:
    return 0.0 if found is None else found.requests_per_s_capacity or 0.0


@given(ASKED, ACCELERATORS)
def test_no_replica_beats_its_cores_its_server_or_its_device(
    catalog: Catalog, workload: InferenceWorkload, accelerator: str
) -> None:
    found = rate(performance(workload, accelerator, catalog))
    assumed, work = Assumptions(), request_sample_work(workload)
    index = catalog.accelerator_index[accelerator]
    listings = catalog.listings
    vcpus = listings.vcpus / catalog.machines.accelerators_per_node[listings.machine]
    most = max([128.0, *vcpus[(listings.accelerator == index) & (vcpus > 0)].tolist()]) * assumed.cores_per_vcpu
    least_s = assumed.server_request_ms / 1e3 + work.audio_s / assumed.audio_s_per_s
    assert found <= most / least_s * ROUNDING
    assert found <= 1e6 / assumed.server_serial_us * ROUNDING
    assert found <= max(catalog.accelerators[index].flops_per_s.values()) / work.total_flops * ROUNDING


@given(ASKED, ACCELERATORS, QUICKER)
def test_a_quicker_host_never_does_less_and_never_takes_longer(
    catalog: Catalog, workload: InferenceWorkload, accelerator: str, quicker: tuple[str, float]
) -> None:
    name, times = quicker
    usual = Assumptions()
    better = usual.with_overrides({name: getattr(usual, name) * times})
    before, after = (performance(workload, accelerator, catalog, a) for a in (usual, better))
    assert rate(after) * ROUNDING >= rate(before)
    if workload.load is Load.CLOSED and before is not None and after is not None and before.e2e and after.e2e:
        same = before.batch_at_peak == after.batch_at_peak
        assert not same or (after.e2e.p50_s or 0) <= (before.e2e.p50_s or 0) * ROUNDING


@given(ASKED, ACCELERATORS, st.floats(1.1, 4))
def test_longer_and_more_mixed_texts_are_never_quicker(
    catalog: Catalog, workload: InferenceWorkload, accelerator: str, times: float
) -> None:
    mean = workload.input_tokens.mean
    one, longer, mixed = (
        rate(performance(replace(workload, input_tokens=texts), accelerator, catalog))
        for texts in (Lengths(mean), Lengths(mean * times), Lengths(mean, mean * times))
    )
    assert longer <= one * ROUNDING
    assert mixed <= one * ROUNDING
