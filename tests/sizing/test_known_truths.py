"""Things everybody in the field knows, held against the whole engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.catalog.snapshot import CatalogStore
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Method, Slo, TrainingWorkload
from app.sizing.workload.limits import usual_e2e_s
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, PRETRAIN, present, registered

IDLE = replace(
    CHAT,
    load=Load.CLOSED,
    in_flight=1.0,
    peak_per_s=0.0,
    input_tokens=Lengths(512),
    output_tokens=Lengths(128),
    slo=Slo(None, None, None, 95),
    max_context_tokens=2048.0,
)


def fits(catalog: Catalog, workload: InferenceWorkload, **deployment: object) -> bool:
    return estimate_deployment(Question(workload), Deployment(**deployment), catalog).fits  # type: ignore[arg-type]


def train(catalog: Catalog, workload: TrainingWorkload, **deployment: object) -> Estimate:
    return estimate_deployment(Question(workload), Deployment(**deployment), catalog)  # type: ignore[arg-type]


def test_a_small_team_is_not_sold_an_eight_gpu_h100_node(catalog: Catalog) -> None:
    small = replace(CHAT, peak_per_s=0.4, average_per_s=0.13, slo=Slo(1.5, 0.06, None, 95))
    first = recommend_hardware(Question(small), catalog).recommendations[0].estimate
    assert (first.deployment.total_accelerators or 0) < 8
    assert first.deployment.accelerator != "nvidia-h100-sxm5-80gb"


def test_deepseek_v3_in_fp8_fits_eight_h200_and_not_eight_h100(catalog: Catalog, catalog_store: CatalogStore) -> None:
    workload = replace(IDLE, model=catalog_store.find_model("deepseek-ai/DeepSeek-V3"))
    layout = {"tensor_parallel": 8, "weight_format": "fp8", "engine": "vllm"}
    assert fits(catalog, workload, accelerator="nvidia-h200-sxm-141gb", **layout)
    assert not fits(catalog, workload, accelerator="nvidia-h100-sxm5-80gb", **layout)


def test_70b_in_16_bit_exceeds_one_80_gb_device_and_its_int4_form_fits_48_gb(catalog: Catalog) -> None:
    workload = replace(IDLE, model=LLAMA_70B)
    one = {"accelerators_per_replica": 1, "engine": "vllm"}
    assert not fits(catalog, workload, accelerator="nvidia-h100-sxm5-80gb", weight_format="bf16", **one)
    assert fits(catalog, workload, accelerator="nvidia-rtx-a6000", weight_format="int4-awq", **one)
    assert fits(catalog, workload, accelerator="nvidia-l40s", weight_format="int4-awq", **one)


def test_full_7b_fine_tuning_fits_one_80_gb_device_only_with_named_savings(
    catalog: Catalog, catalog_store: CatalogStore
) -> None:
    workload = replace(
        PRETRAIN,
        model=catalog_store.find_model("mistralai/Mistral-7B-v0.1"),
        phase="fine_tuning",
        units=2e8,
        global_batch=32,
        deadline_s=7 * 86400.0,
    )
    one = {"accelerator": "nvidia-h100-sxm5-80gb", "accelerators_per_replica": 1}
    plain = train(catalog, workload, **one, zero_stage=0, activation_checkpointing="none", micro_batch_sequences=1)
    assert not plain.fits
    assert not train(catalog, workload, **one).fits  # nothing goes to the host unless the caller asks for it
    saved = train(catalog, workload, **one, optimizer_offload=True, activation_checkpointing="full")
    assert saved.fits
    assert saved.deployment.optimizer_offload is True
    assert "offloaded" in saved.explanation[0].text
    assert "activation checkpointing" in saved.explanation[0].text


def test_qlora_70b_fits_one_48_gb_and_one_80_gb_device(catalog: Catalog) -> None:
    workload = replace(
        PRETRAIN,
        model=LLAMA_70B,
        phase="fine_tuning",
        method=Method.QLORA,
        units=1e7,
        units_per_sequence=2048.0,
        global_batch=16,
        deadline_s=14 * 86400.0,
    )
    for accelerator in ("nvidia-rtx-a6000", "nvidia-h100-sxm5-80gb"):
        assert train(catalog, workload, accelerator=accelerator, accelerators_per_replica=1).fits
    assert not train(catalog, workload, accelerator="nvidia-rtx-4090", accelerators_per_replica=1).fits


def test_a_t4_never_trains_a_70b(catalog: Catalog) -> None:
    """It has no BF16, and inference-class parts are not built into the clusters that FP16 would take."""
    runs = [
        ("bf16", p, m)
        for p, m in (("training", Method.FULL), ("fine_tuning", Method.LORA), ("fine_tuning", Method.QLORA))
    ]
    for precision, phase, method in [*runs, ("fp16", "training", Method.FULL), ("fp16", "fine_tuning", Method.FULL)]:
        workload = replace(PRETRAIN, model=LLAMA_70B, method=method, phase=phase, precision=precision, units=1e9)
        answer = recommend_hardware(Question(workload, Constraints(accelerators=("nvidia-t4",))), catalog)
        assert answer.recommendations == ()
        assert any(r.accelerator == "nvidia-t4" for r in answer.rejected)


def test_405b_in_80_days_takes_about_16_000_h100_and_says_which_links(
    catalog: Catalog, catalog_store: CatalogStore
) -> None:
    workload = replace(
        PRETRAIN,
        model=catalog_store.find_model("meta-llama/Llama-3.1-405B"),
        units=15.6e12,
        units_per_sequence=8192.0,
        global_batch=2048,
        deadline_s=80 * 86400.0,
        experiment_overhead=0.1,
    )
    h100 = Constraints(accelerators=("nvidia-h100-sxm5-80gb",), confidence=0.5)
    best = recommend_hardware(Question(workload, h100), catalog).recommendations[0].estimate
    count = best.deployment.accelerators_per_replica or 0
    assert count == pytest.approx(16_384, rel=0.1)
    assert best.performance is not None
    assert 0.36 <= (best.performance.mfu or 0) <= 0.45
    # Interruptions: 419 in 54 days on 16,384 accelerators is about eight a day.
    daily = (best.performance.expected_interruptions or 0) / (best.performance.days or 1)
    assert daily == pytest.approx(7.8 * count / 16_384, rel=0.05)
    layout = next(r for r in best.explanation if r.code == "layout")
    assert "Gbit/s per machine between machines" in layout.text
    assert "within a machine" in layout.text


def test_phase_decides_the_hardware(catalog: Catalog) -> None:
    """The same model gets different hardware to serve a person and to be trained."""
    serving = recommend_hardware(Question(IDLE), catalog).recommendations[0].estimate.deployment
    training = recommend_hardware(Question(PRETRAIN), catalog).recommendations[0].estimate.deployment
    assert serving.accelerator != training.accelerator
    trained_on = catalog.accelerators[catalog.accelerator_index[training.accelerator]]
    assert trained_on.training_class


def test_hardware_without_a_rate_is_refused_with_that_reason(catalog: Catalog) -> None:
    answer = recommend_hardware(Question(replace(IDLE, model=LLAMA_8B), rejected_limit=200), catalog)
    reasons = {r.accelerator: r.code for r in answer.rejected}
    assert reasons["apple-m5"] == "missing_data"
    assert reasons["groq-lpu-v1"] in {"no_engine", "no_offer", "no_firm_price"}


def test_cpus_tpus_and_apple_machines_compete(catalog: Catalog) -> None:
    limits = Constraints(max_price_age_days=5000)
    asked = Question(replace(IDLE, slo=Slo(None, 1.0, None, 95)), limits, limit=200, today=catalog.prices_as_of)
    answer = recommend_hardware(asked, catalog)
    kinds = {
        catalog.accelerators[catalog.accelerator_index[r.estimate.deployment.accelerator]].kind
        for r in answer.recommendations
    }
    assert {"gpu", "cpu", "soc", "tpu", "asic"} <= kinds


def test_fp8_is_not_offered_where_hardware_or_engine_lack_it(catalog: Catalog) -> None:
    refused = estimate_deployment(
        Question(IDLE), Deployment(accelerator="nvidia-v100-sxm2-32gb", weight_format="fp8", engine="vllm"), catalog
    )
    assert not refused.fits
    assert "FP8 requires 8.9" in refused.rule
    assert refused.rule in refused.explanation[0].text


@pytest.mark.parametrize("tokens", [16, 128, 512])
def test_nothing_embeds_more_than_its_roofline_its_cores_and_its_server_do(
    catalog: Catalog, catalog_store: CatalogStore, tokens: int
) -> None:
    """A Xeon does not embed 95,000 sentences a second, whatever its matrix units promise."""
    model = catalog_store.find_model("sentence-transformers/all-MiniLM-L6-v2")
    texts = replace(
        IDLE, model=model, load=Load.OFFLINE, in_flight=0.0, input_tokens=Lengths(tokens), output_tokens=Lengths(0)
    )
    for accelerator in catalog.accelerators:
        found = estimate_deployment(
            Question(texts), Deployment(accelerator.slug, replicas=1, spare_replicas=0), catalog
        )
        if found.performance is None:
            continue
        each = found.performance.samples_per_s or 0.0
        peak = max(accelerator.flops_per_s.values())
        assert each <= 50_000
        assert each * 2 * model.matmul_params * tokens <= peak
        if accelerator.family == "x86_cpu":
            assert each <= 0.25 * peak / (2 * model.matmul_params * tokens)


def test_what_people_run_unasked_is_not_calibrated_to_8_bits(catalog: Catalog, catalog_store: CatalogStore) -> None:
    for name in ("BAAI/bge-m3", "stabilityai/stable-diffusion-xl-base-1.0"):
        asked = replace(IDLE, model=catalog_store.find_model(name), input_tokens=Lengths(256), output_tokens=Lengths(0))
        found = recommend_hardware(Question(asked), catalog).recommendations
        assert {r.estimate.deployment.weight_format for r in found} <= {"bf16", "fp16", "fp32"}


@pytest.mark.parametrize(
    ("name", "run", "not_run"),
    [
        ("BAAI/bge-m3", "text-embeddings-inference", "tensorrt"),
        ("BAAI/bge-reranker-v2-m3", "text-embeddings-inference", "onnxruntime"),
        ("openai/whisper-large-v3", "ctranslate2", "tensorrt"),
        ("stabilityai/stable-diffusion-xl-base-1.0", "diffusers", "tensorrt"),
    ],
)
def test_unasked_a_model_runs_on_the_engine_that_people_deploy(
    catalog: Catalog, catalog_store: CatalogStore, name: str, run: str, not_run: str
) -> None:
    """The others are judged where they are named."""
    asked = replace(IDLE, model=catalog_store.find_model(name), input_tokens=Lengths(256), output_tokens=Lengths(0))
    deployed = Deployment("nvidia-l4", replicas=1, spare_replicas=0)
    assert estimate_deployment(Question(asked), deployed, catalog).deployment.engine == run
    named = estimate_deployment(Question(asked), replace(deployed, engine=not_run), catalog)
    assert named.performance is not None and named.deployment.engine == not_run


def capacity(catalog: Catalog, workload: InferenceWorkload, **deployment: object) -> tuple[float, float]:
    """(samples or output tokens per second, prompt tokens per second) of a deployment."""
    asked = Deployment(total_accelerators=1, **deployment)  # type: ignore[arg-type]
    found = present(estimate_deployment(Question(workload), asked, catalog).performance)
    return found.samples_per_s or found.output_tokens_per_s or 0.0, found.prefill_tokens_per_s or 0.0


@pytest.mark.parametrize(
    ("model", "engine", "accelerator", "prompt_tokens", "in_flight", "measured_per_s"),
    [
        # 150 minutes in 98 s, windows of 30 s (Vaibhavs10/insanely-fast-whisper:README.md)
        ("openai/whisper-large-v3", "pytorch", "nvidia-a100-sxm4-80gb", 0.0, 24, 300 / 98),
        # 256 texts of 449 tokens in 1.8491 s (michaelfeil/infinity:docs/docs/benchmarking.md)
        ("BAAI/bge-large-en-v1.5", "text-embeddings-inference", "nvidia-l4", 449.0, 256, 256 / 1.8491),
        # mlcommons/inference_results_v5.1, Offline, per accelerator; with three H100 NVL in one server it was 43.6
        ("openai/whisper-large-v3", "tensorrt", "nvidia-l4", 0.0, 512, 22.0151 / 4),
        ("openai/whisper-large-v3", "tensorrt", "nvidia-l40s", 0.0, 512, 146.111 / 8),
        ("openai/whisper-large-v3", "tensorrt", "nvidia-h200-sxm-141gb", 0.0, 512, 537.166 / 8),
        ("openai/whisper-large-v3", "tensorrt", "nvidia-b200-sxm-180gb", 0.0, 512, 673.765 / 8),
    ],
)
def test_single_passes_are_as_fast_as_published(
    catalog: Catalog,
    model: str,
    engine: str,
    accelerator: str,
    prompt_tokens: float,
    in_flight: float,
    measured_per_s: float,
) -> None:
    texts = {"input_tokens": Lengths(prompt_tokens), "output_tokens": Lengths(0.0)}
    workload = replace(IDLE, model=registered(model), in_flight=float(in_flight), **texts)  # type: ignore[arg-type]
    found = capacity(catalog, workload, accelerator=accelerator, engine=engine)[0]
    assert found == pytest.approx(measured_per_s, rel=0.25)


def test_a_few_old_cards_transcribe_150_times_real_time(catalog: Catalog) -> None:
    model = registered("openai/whisper-large-v3")
    limit_s = usual_e2e_s(model, Assumptions())
    assert limit_s == 0.5 * 30.0
    texts = {"input_tokens": Lengths(0.0), "output_tokens": Lengths(0.0)}
    speech = replace(CHAT, model=model, peak_per_s=5.0, slo=Slo(None, None, limit_s, 95), **texts)  # type: ignore[arg-type]
    only = Constraints(accelerators=("nvidia-v100-pcie-16gb",))
    first = recommend_hardware(Question(speech, only, first_only=True), catalog).recommendations[0]
    assert 3 <= (first.estimate.deployment.total_accelerators or 0) <= 5


def test_speech_within_seconds_runs_on_cards_not_on_processors(catalog: Catalog) -> None:
    """Faster-whisper is too slow for a limit of 5 s at 5 recordings/s; vLLM on one small card is not."""
    texts = {"input_tokens": Lengths(0.0), "output_tokens": Lengths(0.0)}
    model = registered("openai/whisper-large-v3")
    speech = replace(CHAT, model=model, peak_per_s=5.0, slo=Slo(None, None, 5.0, 95), **texts)  # type: ignore[arg-type]
    first = recommend_hardware(Question(speech, first_only=True), catalog).recommendations[0]
    assert first.estimate.deployment.engine == "vllm"
    assert first.accelerator.kind == "gpu"


DENSE, MIXTURE = LLAMA_8B, registered("openai/gpt-oss-20b")
NEIGHBORS = (
    ("nvidia-a100-sxm4-80gb", "nvidia-h100-sxm5-80gb"),
    ("nvidia-h200-sxm-141gb", "nvidia-b200-sxm-180gb"),
    ("amd-mi300x", "amd-mi325x"),
    ("amd-mi325x", "amd-mi350x"),
)


@pytest.mark.parametrize(("model", "stored"), [(DENSE, "bf16"), (MIXTURE, "mxfp4")], ids=["dense", "mixture"])
def test_neighbors_and_engines_differ_by_no_more_than_twice_what_data_sheets_say(
    catalog: Catalog, model: ModelArchitecture, stored: str
) -> None:
    """Generations of accelerators in one engine; engines on one accelerator, of dense models."""
    busy = replace(IDLE, model=model, in_flight=32.0, input_tokens=Lengths(2000), max_context_tokens=4096.0)
    known = {
        (slug, engine): capacity(catalog, busy, accelerator=slug, engine=engine, weight_format=stored)
        for slug in {slug for pair in NEIGHBORS for slug in pair}
        for engine in ("vllm", "sglang")
    }
    parts = {a.slug: a for a in catalog.accelerators}
    order = ("fp4", "bf16") if stored == "mxfp4" else ("bf16",)
    rates = {s: next(parts[s].flops_per_s[r] for r in order if r in parts[s].flops_per_s) for s, _ in known}
    least = 0.5 if stored == "bf16" else 0.33  # experts alone multiply in FP4, and hosts launch prompts equally fast
    for older, newer in NEIGHBORS:
        compute = rates[newer] / rates[older]
        memory = (parts[newer].memory_bytes_per_s or 0.0) / (parts[older].memory_bytes_per_s or 1.0)
        for engine in ("vllm", "sglang"):
            decode, prefill = (b / a for a, b in zip(known[older, engine], known[newer, engine], strict=True))
            assert least <= prefill / compute <= 2, (older, newer, engine)
            assert min(compute, memory) / 2 <= decode <= 2 * max(compute, memory), (older, newer, engine)
    if stored == "bf16":
        for slug in rates:
            assert all(0.5 <= a / b <= 2 for a, b in zip(known[slug, "vllm"], known[slug, "sglang"], strict=True)), slug
