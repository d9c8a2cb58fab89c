"""Convolutional networks whose configurations state widths and depths: ResNet and its variants, EfficientNet."""

from __future__ import annotations

import math
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.configuration import MAX_LAYERS, Config, Reader
from app.sizing.model.counting.convolutions import NetworkCounter, Signal
from app.sizing.model.counting.encoders import class_count
from app.sizing.model.counting.stages import build_network, build_sample_law, count_stages


def _build_image_network(reader: Reader, name: str, family: str, stages: list[dict[str, Any]]) -> ModelArchitecture:
    side = reader.integer("image_size", 0) or 224
    net = count_stages(NetworkCounter(Signal(reader.size("num_channels", 3), (side, side))), stages)
    return build_network(net, name, family, build_sample_law(net, (side, side)))


def read_resnet(config: Config, name: str) -> ModelArchitecture:
    """ResNet by its stages: two 3 x 3 convolutions per block, or a bottleneck of a quarter of the width.

    `groups` and `width_per_group` make it a ResNeXt or a wide ResNet. `squeeze` (the divisor of a block's width)
    adds squeeze and excitation.

    Source: He et al. 2015 (arXiv:1512.03385); Xie et al. 2016 (arXiv:1611.05431); Hu et al. 2017 (arXiv:1709.01507).
    Limits: work is proportional to the pixels; image borders are not treated separately.
    Check: ResNet-50, parameters and GFLOP at 224.
        >>> resnet = registered("microsoft/resnet-50")
        >>> resnet.total_params, round(resnet.sample.flops / 1e9, 2)
        (25557032, 8.18)
    """
    reader = Reader(config, "resnet")
    widths, depths = reader.size_list("hidden_sizes", most=10**6), reader.size_list("depths", most=1000)
    if len(widths) != len(depths) or sum(depths) > MAX_LAYERS:
        raise UnreadableConfiguration(
            "'hidden_sizes' and 'depths' must have one entry per stage, "
            f"and 'depths' may add up to at most {MAX_LAYERS} layers.",
            key="depths",
        )
    basic, groups = reader.find_value("layer_type") == "basic", reader.size("groups", 1)
    squeeze, wide = reader.integer("squeeze", 0), reader.size("width_per_group", 64)
    stages: list[dict[str, Any]] = [
        {"block": "conv", "out": reader.size("embedding_size", 64), "kernel": 7, "stride": 2},
        {"block": "pool", "kernel": 3, "stride": 2},
    ]
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        block = {"block": "residual", "out": width, "times": depth, "stride": 1 if stage == 0 else 2, "groups": groups}
        block["inner"] = 0 if basic else width // 4 * wide // 64 * groups
        block["squeeze"] = width // squeeze if squeeze else 0
        stages.append(block)
    return _build_image_network(reader, name, "resnet", [*stages, {"block": "linear", "out": class_count(reader)}])


# Kernel, stride, expansion factor, width and depth of EfficientNet-B0's stages.
_B0 = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


def _round_width(width: float, divisor: int) -> int:
    """The width rounded to a multiple of the divisor, at most 10 % narrower."""
    rounded = max(divisor, int(width + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * width else rounded


def read_efficientnet(config: Config, name: str) -> ModelArchitecture:
    """EfficientNet by its width and depth coefficients. With `wide_squeeze`, it squeezes a share of the widened
    channels.

    Source: Tan and Le 2019 (arXiv:1905.11946), table 1.
    Check: B0, parameters and GFLOP at 224.
        >>> net = registered("google/efficientnet-b0")
        >>> net.total_params, round(net.sample.flops / 1e9, 2)
        (5288548, 0.77)
    """
    reader = Reader(config, "efficientnet")
    width, depth = reader.number("width_coefficient", 1.0), reader.number("depth_coefficient", 1.0)
    if not 0 < width <= 100 or not 0 < depth <= 100:
        raise UnreadableConfiguration(
            "'width_coefficient' and 'depth_coefficient' must be above 0 and at most 100.", key="width_coefficient"
        )
    divisor = reader.size("depth_divisor", 8)
    stages: list[dict[str, Any]] = [
        {"block": "conv", "out": _round_width(32 * width, divisor), "stride": 2, "act": "silu"},
    ]
    for kernel, stride, expand, out, times in _B0:
        block = {"block": "inverted", "kernel": kernel, "stride": stride, "expand": expand, "squeeze": 4}
        block |= {"out": _round_width(out * width, divisor), "times": math.ceil(times * depth)}
        stages.append(block | {"wide": reader.flag("wide_squeeze")})
    top = {"block": "conv", "out": _round_width(1280 * width, divisor), "kernel": 1, "act": "silu"}
    return _build_image_network(
        reader, name, "efficientnet", [*stages, top, {"block": "linear", "out": class_count(reader)}]
    )
