"""Relations between counts that hold for every model, whatever its size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.model.architecture import AttentionGroup, ImageInput
from app.sizing.model.formats import KV_FORMATS, WEIGHT_FORMATS
from app.sizing.model.sample import SampleShape
from tests.examples import registered
from tests.sizing.model.counting.bases import BASES, counted

TOKENS = [n for n in BASES if counted(n).attention and counted(n).sample is None]
SAMPLES = (
    "google/vit-base-patch16-224",
    "microsoft/resnet-50",
    "google/efficientnet-b0",
    "openai/whisper-small",
    "facebook/wav2vec2-base-960h",
    "stabilityai/stable-diffusion-xl-base-1.0",
    "black-forest-labs/FLUX.1-dev",
    "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
)
DEGREES = st.integers(0, 6).map(lambda k: 2**k)
CONTEXTS = st.integers(1, 300_000)


@pytest.mark.parametrize("name", BASES)
def test_no_format_of_few_bits_is_larger_than_sixteen(name: str) -> None:
    model = counted(name)
    sixteen = model.weights_bytes(WEIGHT_FORMATS["bf16"])
    for stored in WEIGHT_FORMATS.values():
        if stored.nominal_bits < 16:
            held = model.weights_bytes(stored)
            assert held < sixteen or (stored.routed_experts_only and held == sixteen and not model.is_moe), stored.name
    assert model.published_bytes() <= sixteen


@pytest.mark.parametrize("name", BASES)
def test_fewer_bits_of_one_scheme_are_fewer_bytes(name: str) -> None:
    model = counted(name)
    for wide, narrow in (
        ("fp32", "bf16"),
        ("fp8", "nvfp4"),
        ("nvfp4", "int4-awq"),
        ("int8-gptq", "int4-gptq"),
        ("int8-mlx", "int4-mlx"),
        ("gguf-f16", "gguf-q8_0"),
        ("gguf-q8_0", "gguf-q6_k"),
        ("gguf-q5_k_m", "gguf-q4_k_m"),
        ("gguf-q4_k_m", "gguf-q4_k_s"),
        ("gguf-q3_k_l", "gguf-q3_k_m"),
    ):
        assert model.weights_bytes(WEIGHT_FORMATS[narrow]) <= model.weights_bytes(WEIGHT_FORMATS[wide]), (wide, narrow)


def test_a_cache_format_is_kept_by_what_provides_it() -> None:
    assert KV_FORMATS["bf16"].is_supported_by(("fp16",))
    assert KV_FORMATS["int8"].is_supported_by(("gguf-q8_0",))
    assert not KV_FORMATS["fp8"].is_supported_by(("bf16", "int8"))
    assert [name for name, kv in KV_FORMATS.items() if kv.is_supported_by(())] == ["bf16", "fp16"]  # none is known
    assert all(f.is_supported_by((f.name,)) and 0 < f.element_bytes <= 2 for f in KV_FORMATS.values())


@given(st.sampled_from(TOKENS), CONTEXTS, st.integers(1, 1000), DEGREES)
def test_a_longer_context_is_never_less_to_keep_read_or_compute(
    name: str, context: int, more: int, degree: int
) -> None:
    model = counted(name)
    longer = context + more
    for count in (model.cache_bytes, model.read_bytes):
        assert count(longer, tensor_parallel=degree) >= count(context, tensor_parallel=degree)
    assert model.flops_per_token(longer) >= model.flops_per_token(context)
    assert model.decode_attention_flops(longer) >= model.decode_attention_flops(context)
    # two prompts apart attend to less than one of both
    whole = model.prefill_attention_flops(longer)
    assert whole * (1 + 1e-12) >= model.prefill_attention_flops(context) + model.prefill_attention_flops(more)


@given(st.sampled_from(TOKENS), CONTEXTS, DEGREES)
def test_splitting_heads_never_gives_a_device_more_and_never_loses_any(name: str, context: int, degree: int) -> None:
    model = counted(name)
    for count in (model.cache_bytes, model.read_bytes):
        one, half = count(context, tensor_parallel=degree), count(context, tensor_parallel=2 * degree)
        assert half <= one
        assert 2 * half * (1 + 1e-12) >= one


@pytest.mark.parametrize("name", TOKENS)
def test_training_is_three_forward_passes_of_a_mean_token(name: str) -> None:
    model = counted(name)
    length = 2048
    attention = model.prefill_attention_flops(length) / length
    forward = 2 * model.training_matmul_params + attention + model.recurrent_flops_per_token
    assert model.training_flops_per_token(length) == pytest.approx(3 * forward)
    if not model.reads_source:
        assert model.training_flops_per_token(length) <= 3 * model.flops_per_token(length) * (1 + 1e-12)


@pytest.mark.parametrize("name", TOKENS)
def test_adapters_grow_with_their_rank_and_with_what_they_adapt(name: str) -> None:
    model = counted(name)
    assert model.lora_params(32, "all-linear") == 2 * model.lora_params(16, "all-linear")
    assert 0 < model.lora_params(8, "q_v") <= model.lora_params(8, "attention") <= model.lora_params(8, "all-linear")


@pytest.mark.parametrize("name", TOKENS)
def test_fused_kernels_keep_no_more_than_eager_modules(name: str) -> None:
    model = counted(name)
    assert 0 < model.activation_bytes_per_layer() < model.activation_bytes_per_layer(fused=False)


@given(st.integers(1, 60), st.one_of(st.none(), st.integers(1, 70)), st.one_of(st.none(), st.integers(1, 70)))
def test_the_mean_read_of_a_prompt_is_the_mean_of_its_tokens(tokens: int, window: int | None, read: int | None) -> None:
    group = AttentionGroup(1, 8.0, 1, 8.0, 8.0, window_tokens=window, read_tokens=read)
    assert group.mean_tokens_read(tokens) == pytest.approx(
        sum(group.tokens_read(t) for t in range(1, tokens + 1)) / tokens
    )
    assert group.read_elements(tokens) <= group.cached_elements(tokens)


@given(
    st.sampled_from(
        (ImageInput(14, 2), ImageInput(14, 2, max_tokens=500), ImageInput(14, tile_pixels=336, max_tiles=12))
    ),
    st.integers(16, 3000),
    st.integers(16, 3000),
)
def test_an_image_is_at_least_one_token_and_no_more_than_its_patches(
    images: ImageInput, width: int, height: int
) -> None:
    assert 1 <= images.token_count(width, height) <= images.patch_count(width, height)
    if images.tile_pixels is None:
        assert images.token_count(2 * width, 2 * height) >= images.token_count(width, height)


@given(st.sampled_from(SAMPLES), st.integers(1, 4), st.integers(1, 5))
def test_a_larger_sample_is_never_less_work(name: str, times: int, longer: int) -> None:
    model = registered(name)
    law, usual = model.law, model.sample
    assert law is not None
    assert usual is not None
    shape = SampleShape(
        width=law.width * times or None,
        height=law.height * times or None,
        audio_s=law.audio_s * longer or None,
        steps=law.steps * longer,
    )
    larger = law.sample_work(shape)
    assert larger.total_flops >= usual.total_flops
    assert larger.moved_bytes >= usual.moved_bytes
    assert larger.live_bytes >= usual.live_bytes
    assert larger.total_flops == pytest.approx(larger.flops * larger.passes + larger.extra_flops)
    assert larger.forward_flops <= larger.total_flops


def test_a_guided_step_evaluates_the_network_twice() -> None:
    law = registered("stabilityai/stable-diffusion-xl-base-1.0").law
    assert law is not None
    assert law.guidance == 2
    work = law.sample_work(SampleShape())
    assert work.flops == pytest.approx(2 * work.forward_flops)
