"""Convolutional networks, counted operation by operation over a signal of one, two or three dimensions.

Activations kept for backward follow eager modules: a convolution keeps its input, a norm its input, an in-place
rectifier its output, a smooth activation its input. A tensor that one operation keeps is not counted again for the
next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.configuration import MAX_LAYERS, Config, Reader
from app.sizing.model.counting.encoders import class_count
from app.sizing.model.sample import Footprint, Network, SampleLaw
from app.sizing.model.tensors import ONCE, Part, Per, Tensor

BYTES_16_BIT = 2.0  # bytes of an element in 16 bit
MATRIX_TILE = 64  # output channels that a kernel on a matrix unit computes at a time
POOL_INDEX_BYTES = 8.0  # bytes per index that max pooling keeps
# Only "relu" works in place; every other activation keeps a copy of its input for backward.
ACTIVATIONS = ("relu", "relu6", "silu", "none")
MAX_ELEMENTS = 1e13


@dataclass(slots=True)
class Signal:
    """A signal between operations: channels over a grid, and whether an operation already keeps it for backward."""

    channels: int
    size: tuple[int, ...]
    is_saved: bool = False

    @property
    def grid_points(self) -> float:
        return float(math.prod(self.size))

    @property
    def element_count(self) -> float:
        return self.channels * self.grid_points


@dataclass(slots=True)
class NetworkCounter:
    """Running counts of a network for one sample; padded convolutions divide the grid by their stride."""

    signal: Signal
    convolution_params: int = 0
    norm_params: int = 0
    macs: float = 0.0  # multiply-adds of a forward pass
    fixed_macs: float = 0.0  # multiply-adds that do not grow with the sample
    trained_macs: float = 0.0  # multiply-adds, with those of frozen layers counted at one third
    tiled_macs: float = 0.0  # trained multiply-adds with output channels rounded up to a tile
    layers: int = 0
    saved_elements: float = 0.0  # elements kept for backward
    saved_indices: float = 0.0  # indices that max pooling keeps for backward, the same size in every precision
    matrix_elements: float = 0.0  # elements that ungrouped convolutions and matrices read and write
    elementwise_elements: float = 0.0  # elements that kernels between the matrices read and write
    grouped_elements: float = 0.0  # elements that grouped convolutions read and write
    grouped_taps: float = 0.0  # output elements of grouped convolutions times kernel positions
    operations: float = 0.0  # kernels
    peak_elements: float = (
        0.0  # peak elements in backward: those kept so far, and gradients of a layer's input and output
    )
    frozen: bool = False  # whether the following layers are not trained

    def save_for_backward(self, elements: float) -> None:
        self.saved_elements += 0.0 if self.frozen else elements

    def count_elementwise(self, elements: float, kernels: float = 1.0) -> None:
        """Count kernels between the matrices, and the elements that they read and write."""
        self.elementwise_elements += elements
        self.operations += kernels

    def count_matrix(self, outputs: Signal, weights: int, macs: float, *, grouped: bool = False) -> None:
        """Count a convolution or matrix from the signal to `outputs`; it keeps its input for backward."""
        if outputs.element_count > MAX_ELEMENTS or self.convolution_params + weights > 1e15:
            raise UnreadableConfiguration(
                "The stages describe a network that is too large: a signal may have at most 1e13 elements, "
                "and the network at most 1e15 parameters.",
                key="stages",
            )
        if not self.signal.is_saved:
            self.save_for_backward(self.signal.element_count)
            self.signal.is_saved = True
        outputs.is_saved = False
        moved = self.signal.element_count + outputs.element_count
        self.convolution_params += weights
        self.macs += macs
        trained = macs / 3 if self.frozen else macs
        self.trained_macs += trained
        self.tiled_macs += (
            trained if grouped else trained * -(-outputs.channels // MATRIX_TILE) * MATRIX_TILE / outputs.channels
        )
        self.matrix_elements += 0.0 if grouped else moved
        self.grouped_elements += moved if grouped else 0.0
        self.operations += 1.0
        self.layers += 1
        self.peak_elements = max(
            self.peak_elements, self.saved_elements + self.signal.element_count + outputs.element_count
        )
        self.signal = outputs

    def count_convolution(
        self,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
        norm: bool = True,
        act: str = "relu",
        valid: bool = False,
        affine: bool = False,
    ) -> None:
        """Count a convolution, its norm (with `affine`, a frozen one) and its activation."""
        before = self.signal
        if groups < 1 or before.channels % groups or outputs % groups:
            raise UnreadableConfiguration(
                f"'groups' is {groups}, but it must be at least 1 and divide the input and output channels of its "
                "stage.",
                key="stages",
            )
        size = tuple(max(1, -(-s // stride)) if not valid else max(1, (s - kernel) // stride + 1) for s in before.size)
        weights = before.channels // groups * outputs * kernel ** len(size)
        after = Signal(outputs, size)
        self.count_matrix(after, weights, weights * after.grid_points, grouped=groups > 1)
        self.grouped_taps += after.element_count * kernel ** len(size) if groups > 1 else 0.0
        self.convolution_params += outputs if bias else 0
        if norm and affine:
            self.count_elementwise(2 * after.element_count, 2.0)
        elif norm:
            self.count_norm()
        self.count_activation(act)

    def count_norm(self) -> None:
        """Count a norm over a batch or a channel, which keeps its input and writes a new output."""
        if not self.signal.is_saved:
            self.save_for_backward(self.signal.element_count)
        self.norm_params += 2 * self.signal.channels
        self.count_elementwise(2 * self.signal.element_count, 2.0)
        self.signal.is_saved = False

    def count_activation(self, act: str) -> None:
        """Count an activation: a rectifier keeps its output, every other activation its input."""
        if act not in ACTIVATIONS:
            raise UnreadableConfiguration(f"'act' must be one of {', '.join(ACTIVATIONS)}.", key="stages")
        if act == "none":
            return
        self.count_elementwise((2 if act == "relu" else 4) * self.signal.element_count, 1.0 if act == "relu" else 2.0)
        if not self.signal.is_saved:
            self.save_for_backward(self.signal.element_count)
        self.signal.is_saved = act == "relu"

    def count_squeeze_excitation(self, inner: int) -> None:
        """Count squeeze and excitation, which scales each channel by a weight computed from all channels."""
        n, c = self.signal.element_count, self.signal.channels
        if not self.signal.is_saved:
            self.save_for_backward(n)
        self.convolution_params += 2 * c * inner + inner + c
        self.macs += 2.0 * c * inner
        self.trained_macs += 2.0 * c * inner
        self.layers += 2
        self.count_elementwise(3 * n, 7.0)
        self.signal.is_saved = False

    def count_addition(self, act: str = "none") -> None:
        """Count the addition of a shortcut to the signal."""
        self.count_elementwise(3 * self.signal.element_count)
        self.signal.is_saved = False
        self.count_activation(act)

    def count_max_pool(self, kernel: int, stride: int, *, valid: bool = False) -> None:
        """Count max pooling over windows."""
        before = self.signal
        size = tuple(max(1, -(-s // stride)) if not valid else max(1, (s - kernel) // stride + 1) for s in before.size)
        after = Signal(before.channels, size)
        if not before.is_saved:
            self.save_for_backward(before.element_count)
        self.saved_indices += 0.0 if self.frozen else after.element_count
        self.count_elementwise(before.element_count + after.element_count * (1 + POOL_INDEX_BYTES / BYTES_16_BIT))
        self.signal = after

    def count_upsampling(self, outputs: int, factor: int) -> None:
        """Count a transposed convolution whose kernel is as wide as its stride."""
        before = self.signal
        after = Signal(outputs, tuple(s * factor for s in before.size))
        weights = before.channels * outputs * factor ** len(before.size)
        self.count_matrix(after, weights, weights * before.grid_points)
        self.convolution_params += outputs

    def count_average_pool(self) -> None:
        """Count the mean over all grid points."""
        self.count_elementwise(self.signal.element_count)
        self.signal = Signal(self.signal.channels, (1,) * len(self.signal.size))

    def training_footprint(self) -> Footprint:
        """The training footprint of one sample."""
        return Footprint(
            flops=2 * self.trained_macs,
            kept_bytes=BYTES_16_BIT * self.saved_elements + POOL_INDEX_BYTES * self.saved_indices,
            kept_wide_bytes=POOL_INDEX_BYTES * self.saved_indices,
            matrix_bytes=BYTES_16_BIT * self.matrix_elements,
            elementwise_bytes=BYTES_16_BIT * self.elementwise_elements,
            operations=self.operations,
            grouped_bytes=BYTES_16_BIT * self.grouped_elements,
            tiled_flops=2 * self.tiled_macs,
            grouped_taps=self.grouped_taps,
            working_bytes=BYTES_16_BIT * max(0.0, self.peak_elements - self.saved_elements),
        )


MAX_INPUT_SIZE = 16_384
SPECTROGRAM_FRAMES_PER_S = 100.0  # frames per second of a spectrogram, one every 10 ms


class Stage:
    """One entry of a list of stages: `times` blocks of one kind, the first with the stride.

    `joins` lists the channels of earlier signals that are projected and added to each block's output. `in` and
    `size` give the block a different input signal. Later stages continue from its output, unless `side` marks the
    stage as a branch.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry

    def read_integer(self, name: str, default: int | None = None) -> int:
        value = self.entry.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 10**7:
            raise UnreadableConfiguration(
                f"{name!r} of every stage must be a whole number from 0 to {10**7}.", key="stages"
            )
        return value

    def read_word(self, name: str, default: str) -> str:
        return str(self.entry.get(name, default))

    def read_flag(self, name: str, default: bool = False) -> bool:
        return bool(self.entry.get(name, default))


def _count_convolution(net: NetworkCounter, s: Stage, stride: int) -> None:
    net.count_convolution(
        s.read_integer("out"),
        s.read_integer("kernel", 3),
        stride=stride,
        groups=s.read_integer("groups", 1),
        bias=s.read_flag("bias"),
        norm=s.read_flag("norm", True),
        act=s.read_word("act", "relu"),
        valid=s.read_flag("valid"),
        affine=s.read_flag("affine"),
    )


def _count_shortcut(net: NetworkCounter, before: Signal, out: int, stride: int, *, affine: bool) -> None:
    """Count the shortcut projection of a block whose width or side changes; the current signal stays the block's
    output.
    """
    if before.channels == out and stride == 1:
        return
    own, net.signal = net.signal, before
    net.count_convolution(out, 1, stride=stride, act="none", affine=affine)
    net.signal = own


def _count_residual(net: NetworkCounter, s: Stage, stride: int) -> None:
    """Count two 3 x 3 convolutions, or three with an `inner` width in the middle. The 3 x 3 convolution has the
    stride.
    """
    before, out, inner, affine = net.signal, s.read_integer("out"), s.read_integer("inner", 0), s.read_flag("affine")
    if inner:
        net.count_convolution(inner, 1, affine=affine)
        net.count_convolution(inner, 3, stride=stride, groups=s.read_integer("groups", 1), affine=affine)
        net.count_convolution(out, 1, act="none", affine=affine)
    else:
        net.count_convolution(out, 3, stride=stride, affine=affine)
        net.count_convolution(out, 3, act="none", affine=affine)
    if s.read_integer("squeeze", 0):
        net.count_squeeze_excitation(s.read_integer("squeeze"))
    _count_shortcut(net, before, out, stride, affine=affine)
    net.count_addition("relu")


def _count_inverted(net: NetworkCounter, s: Stage, stride: int) -> None:
    """Count an inverted bottleneck: widen, convolve each channel, narrow (MobileNetV2, EfficientNet)."""
    before, out, act = net.signal, s.read_integer("out"), s.read_word("act", "silu")
    wide = before.channels * s.read_integer("expand", 6)
    if wide != before.channels:
        net.count_convolution(wide, 1, act=act)
    net.count_convolution(wide, s.read_integer("kernel", 3), stride=stride, groups=wide, act=act)
    _count_narrowing(net, s, before, out, stride)


def _count_fused(net: NetworkCounter, s: Stage, stride: int) -> None:
    """Count a fused inverted bottleneck: one full convolution widens the signal instead of two (EfficientNetV2)."""
    before, out, act = net.signal, s.read_integer("out"), s.read_word("act", "silu")
    wide = before.channels * s.read_integer("expand", 4)
    if wide == before.channels:
        net.count_convolution(out, s.read_integer("kernel", 3), stride=stride, act=act)
        if stride == 1 and before.channels == out:
            net.count_addition()
        return
    net.count_convolution(wide, s.read_integer("kernel", 3), stride=stride, act=act)
    _count_narrowing(net, s, before, out, stride)


def _count_narrowing(net: NetworkCounter, s: Stage, before: Signal, out: int, stride: int) -> None:
    """Count the end of a widened block. It squeezes to a share of the input channels or, with `wide`, of the widened
    channels.
    """
    share = s.read_integer("squeeze", 0)
    if share:
        net.count_squeeze_excitation(max(1, (net.signal.channels if s.read_flag("wide") else before.channels) // share))
    net.count_convolution(out, 1, act="none")
    if stride == 1 and before.channels == out:
        net.count_addition()


def _count_separable(net: NetworkCounter, s: Stage, stride: int) -> None:
    """Count a separable convolution: per channel, then across channels."""
    net.count_convolution(
        net.signal.channels,
        s.read_integer("kernel", 3),
        stride=stride,
        groups=net.signal.channels,
        norm=False,
        act="none",
    )
    net.count_convolution(
        s.read_integer("out"),
        1,
        bias=s.read_flag("bias"),
        norm=s.read_flag("norm", True),
        act=s.read_word("act", "relu"),
    )


def _count_max_pool(net: NetworkCounter, s: Stage, stride: int) -> None:
    net.count_max_pool(s.read_integer("kernel", 3), stride, valid=s.read_flag("valid"))


def _count_upsampling(net: NetworkCounter, s: Stage, stride: int) -> None:
    net.count_upsampling(s.read_integer("out"), max(2, stride))


def _count_linear(net: NetworkCounter, s: Stage, _: int) -> None:
    """Count a matrix over the mean of all grid points, or over each of `places`."""
    if "places" not in s.entry:
        net.count_average_pool()
    net.count_convolution(s.read_integer("out"), 1, bias=True, norm=False, act=s.read_word("act", "none"))


BLOCKS: Mapping[str, Callable[[NetworkCounter, Stage, int], None]] = {
    "conv": _count_convolution,
    "residual": _count_residual,
    "inverted": _count_inverted,
    "fused": _count_fused,
    "separable": _count_separable,
    "pool": _count_max_pool,
    "enlarge": _count_upsampling,
    "linear": _count_linear,
}


def _add_earlier_signals(net: NetworkCounter, joins: Sequence[int]) -> None:
    """Count earlier signals that are projected to the current channels and added."""
    own = net.signal
    for channels in joins:
        net.signal = Signal(int(channels), own.size, is_saved=True)
        net.count_convolution(own.channels, 1, act="none")
        net.signal = own
        net.count_addition()
    net.count_activation("relu")


def count_stages(net: NetworkCounter, entries: Sequence[Any]) -> NetworkCounter:
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("block") not in BLOCKS:
            raise UnreadableConfiguration(
                f"Every stage must be an object whose 'block' is one of {', '.join(BLOCKS)}.", key="stages"
            )
        s = Stage(entry)
        own, before, net.frozen = net.signal, net.macs, s.read_flag("frozen")
        _set_input_signal(net, s)
        for time in range(s.read_integer("times", 1)):
            if net.layers > MAX_LAYERS:
                raise UnreadableConfiguration(
                    f"The stages describe more than {MAX_LAYERS} layers, which is the maximum.", key="stages"
                )
            BLOCKS[entry["block"]](net, s, max(1, s.read_integer("stride", 1)) if time == 0 else 1)
        if net.signal.grid_points == 1 or "places" in entry:
            net.fixed_macs += net.macs - before
        if s.entry.get("joins"):
            _add_earlier_signals(net, s.entry["joins"])
        if s.read_flag("side"):
            net.signal = own
    net.frozen = False
    return net


def _set_input_signal(net: NetworkCounter, s: Stage) -> None:
    """Set the input signal of a stage if it differs from the last output: another level, or several signals
    concatenated.
    """
    own = net.signal
    size = own.size
    if "places" in s.entry:
        size = (s.read_integer("places"), *(1,) * (len(own.size) - 1))
    elif "size" in s.entry:
        size = (s.read_integer("size"),) * len(own.size)
    channels = s.read_integer("in", own.channels)
    if size != own.size:
        net.signal = Signal(channels, size, is_saved=True)
    elif channels != own.channels:
        net.signal = Signal(channels, size)
        net.count_elementwise(2 * net.signal.element_count)


def build_network(net: NetworkCounter, name: str, family: str, law: SampleLaw) -> ModelArchitecture:
    """The model of a counted network on samples of its usual size."""
    params = (
        Tensor("convolutions", Part.OTHER, 1, net.convolution_params, ONCE, quantized=True, per=Per.NEVER),
        Tensor("norms", Part.NORMS, net.norm_params, 1, ONCE),
    )
    return ModelArchitecture(
        name=name,
        kind=ModelKind.SAMPLES,
        family=family,
        num_layers=net.layers,
        hidden_size=net.signal.channels,
        num_heads=1,
        head_dim=net.signal.channels,
        mlp_width=float(net.signal.channels),
        vocab_size=0,
        tensors=tuple(t for t in params if t.params),
        source="closed form of the configuration",
    ).with_law(law)


def build_sample_law(net: NetworkCounter, size: tuple[int, ...]) -> SampleLaw:
    """The law of a counted network: work is proportional to the frames, pixels or voxels of a sample."""
    places = float(math.prod(size))
    law = SampleLaw(
        unit=("speech", "image", "volume")[len(size) - 1],
        flops_per_position=2 * (net.macs - net.fixed_macs) / places,
        flops_fixed=2 * net.fixed_macs,
        network=Network.DEPTHWISE if net.grouped_elements > net.matrix_elements / 2 else Network.CONVOLUTION,
        layers=net.layers + 1,
        footprint=net.training_footprint(),
    )
    if len(size) == 1:
        return replace(law, audio_s=size[0] / SPECTROGRAM_FRAMES_PER_S, positions_per_second=SPECTROGRAM_FRAMES_PER_S)
    return replace(law, height=size[0], width=size[1], frames=size[2] if len(size) > 2 else 1, cell_pixels=1)


def read_stages(config: Config, name: str) -> ModelArchitecture:
    """A network given as a list of stages.

    `size` is the size of its input: one number for audio, two for images, three for volumes. `channels` are the
    input channels, and `stages` is the list of blocks.
    """
    reader = Reader(config, "stages")
    size = tuple(reader.size_list("size", most=MAX_INPUT_SIZE))
    entries = config.get("stages")
    if not 1 <= len(size) <= 3 or not isinstance(entries, list):
        raise UnreadableConfiguration(
            "'size' must be a list of one to three numbers, and 'stages' must be a list.", key="stages"
        )
    net = count_stages(NetworkCounter(Signal(reader.size("channels", 3), size)), entries)
    return build_network(net, name, str(config.get("family", "stages")), build_sample_law(net, size))


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
