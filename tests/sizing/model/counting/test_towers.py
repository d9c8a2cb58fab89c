"""Tokens of an image and work of a sample, by the rule of each family."""

from __future__ import annotations

import pytest

from app.sizing.model.sample import SampleShape
from tests.examples import registered
from tests.sizing.model.counting.bases import counted

# (tokens, patches) for an image of a size, by the families' own rules
IMAGES = {
    "llava-hf/llava-1.5-7b-hf": ((336, 336), 576, 576),
    "google/gemma-3-4b-it": ((896, 896), 256, 4096),
    "Qwen/Qwen2.5-VL-7B-Instruct": ((1008, 1008), 1296, 5184),
    "Qwen/Qwen3-VL-2B-Instruct": ((1024, 1024), 1024, 4096),
    "OpenGVLab/InternVL3-1B": ((448, 448), 256, 1024),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": ((336, 336), 144, 576),
    "meta-llama/Llama-3.2-11B-Vision-Instruct": ((560, 560), 0, 1600),
    "HuggingFaceTB/SmolVLM-256M-Instruct": ((512, 512), 64, 1024),
    "zai-org/GLM-4.1V-9B-Thinking": ((1008, 1008), 1296, 5184),
    "LGAI-EXAONE/EXAONE-4.5-33B": ((1008, 1008), 1296, 5184),
    "LiquidAI/LFM2.5-VL-1.6B": ((512, 512), 256, 1024),
}


@pytest.mark.parametrize("name", IMAGES)
def test_image_tokens_follow_each_familys_rule(name: str) -> None:
    (width, height), tokens, patches = IMAGES[name]
    model = counted(name)
    assert model.images is not None
    assert model.images.token_count(width, height) == tokens
    assert model.images.patch_count(width, height) == patches
    assert model.images.patch_count(4 * width, 4 * height) >= patches
    assert model.image_flops(width, height) > 2 * model.source_matmul_params * patches


def test_the_tower_of_glm_is_counted_by_its_modules() -> None:
    """24 blocks of 4 x 1536^2 + 3 x 1536 x 4096, the merging convolution, and a merger of 4096^2 + 3 x 4096 x 13696."""
    blocks = 24 * (4 * 1536**2 + 3 * 1536 * 4096 + 2 * 1536)
    ends = 1536 * (3 * 2 * 14**2 + 1) + (24**2 + 2) * 1536
    merger = 4 * 1536 * 4096 + 4096 + 4096**2 + 3 * 4096 * 13696 + 2 * 4096
    assert counted("zai-org/GLM-4.1V-9B-Thinking").total_params == 9_400_279_040 + blocks + ends + merger


@pytest.mark.parametrize(
    ("name", "gflop"),
    [
        ("microsoft/resnet-50", 8.178),
        ("google/vit-base-patch16-224", 35.13),
        ("black-forest-labs/FLUX.1-dev", 74_385),
        ("stabilityai/stable-diffusion-3-medium-diffusers", 8_904),
        ("stabilityai/stable-diffusion-3.5-medium", 11_250),
        ("facebook/dinov2-large", 1_013.6),
        ("google/siglip-so400m-patch14-384", 670.3),
    ],
)
def test_work_of_a_sample_equals_the_counted_network(name: str, gflop: float) -> None:
    model = counted(name)
    assert model.law is not None
    assert model.sample is not None
    assert model.sample.flops / model.law.guidance / 1e9 == pytest.approx(gflop, rel=0.002)


# One denoising step at another size than the registered one, counted on the instantiated network.
@pytest.mark.parametrize(
    ("name", "shape", "teraflop"),
    [
        ("meituan-longcat/LongCat-Image", SampleShape(512, 512), 11.322),
        ("Lightricks/LTX-2.5-Diffusers", SampleShape(1280, 704, 121), 537.14),
    ],
)
def test_work_of_a_registered_denoiser_follows_the_size(name: str, shape: SampleShape, teraflop: float) -> None:
    law = registered(name).law
    assert law is not None
    assert law.sample_work(shape).flops / law.guidance / 1e12 == pytest.approx(teraflop, rel=0.05)
