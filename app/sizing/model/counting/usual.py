"""Usual settings of networks that generate or read pictures, by family, for values that a request omits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.sizing.model.sample import Network

LATENT_PIXELS = 8  # side, in pixels, of the square that an image encoder turns into one latent position
CELL_PIXELS = 16  # side, in pixels, of the square behind one position: a factor 8 of the encoder, 2 of the patch
FRAMES_PER_POSITION = 4  # frames of a clip that the encoder turns into one latent frame
TEXT_ENCODER_TOKENS = 77  # prompt tokens of CLIP
IMAGE_SIDE = 1024  # pixels


@dataclass(frozen=True, slots=True)
class DefaultSettings:
    """Usual denoising steps, guidance, text tokens and sample size of a family.

    With guidance above 1, the network is evaluated twice per step.

    Source: the example calls of each model card and the defaults of the diffusers pipelines, 2026-11.
    """

    steps: int
    guidance: float
    text_tokens: int = 512
    width: int = IMAGE_SIDE
    height: int = IMAGE_SIDE
    frames: int = 1


FLUX_DISTILLED, FLUX_FAST = DefaultSettings(28, 1.0), DefaultSettings(4, 1.0, text_tokens=256)
SD3 = DefaultSettings(28, 2.0, text_tokens=333)
DENOISERS: Mapping[str, DefaultSettings] = {
    "unet2d_condition": DefaultSettings(30, 2.0, text_tokens=TEXT_ENCODER_TOKENS),
    "flux2": DefaultSettings(28, 1.0),
    "qwen_image": DefaultSettings(50, 2.0),
    "z_image": DefaultSettings(8, 1.0),
    "wan": DefaultSettings(50, 2.0, width=832, height=480, frames=81),
    "hunyuan_video": DefaultSettings(50, 1.0, width=1280, height=720, frames=129),
}
DEFAULT_DENOISER = DefaultSettings(30, 1.0)

IMAGE_NETWORKS: Mapping[str, Network] = {
    "efficientnet": Network.DEPTHWISE,
    "efficientnetv2": Network.DEPTHWISE,
    "mobilenet_v2": Network.DEPTHWISE,
    "mobilenet_v3": Network.DEPTHWISE,
    "convnext": Network.CONVOLUTION,
    "densenet": Network.CONVOLUTION,
    "vgg": Network.CONVOLUTION,
    "yolov8": Network.CONVOLUTION,
    "yolo11": Network.CONVOLUTION,
    "swin": Network.WINDOWED,
}
