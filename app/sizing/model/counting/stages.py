"""Named blocks of convolutional networks, and networks that are lists of such blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.configuration import MAX_LAYERS, Config, Reader
from app.sizing.model.counting.convolutions import NetworkCounter, Signal
from app.sizing.model.sample import Network, SampleLaw
from app.sizing.model.tensors import ONCE, Part, Per, Tensor

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
    """Count every stage in turn."""
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
