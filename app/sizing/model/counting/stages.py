"""Named blocks of convolutional networks, and networks that are lists of such blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.configuration import MAX_LAYERS, Config, Reader
from app.sizing.model.counting.convolutions import Counted, Signal
from app.sizing.model.sample import Network, SampleLaw
from app.sizing.model.tensors import ONCE, Part, Per, Tensor

MOST_SIZE = 16_384
FRAMES_PER_S = 100.0  # frames per second of a spectrogram, one every 10 ms


class Stage:
    """One entry of a list of stages: `times` blocks of one kind, the first with the stride.

    `joins` lists the channels of earlier signals that are projected and added to each block's output. `in` and
    `size` give the block a different input signal. Later stages continue from its output, unless `side` marks the
    stage as a branch.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry

    def number(self, name: str, default: int | None = None) -> int:
        value = self.entry.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 10**7:
            raise UnreadableConfiguration(
                f"{name!r} of every stage must be a whole number from 0 to {10**7}.", key="stages"
            )
        return value

    def word(self, name: str, default: str) -> str:
        return str(self.entry.get(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.entry.get(name, default))


def _conv(net: Counted, s: Stage, stride: int) -> None:
    net.convolve(
        s.number("out"),
        s.number("kernel", 3),
        stride=stride,
        groups=s.number("groups", 1),
        bias=s.flag("bias"),
        norm=s.flag("norm", True),
        act=s.word("act", "relu"),
        valid=s.flag("valid"),
        affine=s.flag("affine"),
    )


def _shortcut(net: Counted, before: Signal, out: int, stride: int, *, affine: bool) -> None:
    """Count the shortcut projection of a block whose width or side changes; the current signal stays the block's
    output.
    """
    if before.channels == out and stride == 1:
        return
    own, net.signal = net.signal, before
    net.convolve(out, 1, stride=stride, act="none", affine=affine)
    net.signal = own


def _residual(net: Counted, s: Stage, stride: int) -> None:
    """Count two 3 x 3 convolutions, or three with an `inner` width in the middle. The 3 x 3 convolution has the
    stride.
    """
    before, out, inner, affine = net.signal, s.number("out"), s.number("inner", 0), s.flag("affine")
    if inner:
        net.convolve(inner, 1, affine=affine)
        net.convolve(inner, 3, stride=stride, groups=s.number("groups", 1), affine=affine)
        net.convolve(out, 1, act="none", affine=affine)
    else:
        net.convolve(out, 3, stride=stride, affine=affine)
        net.convolve(out, 3, act="none", affine=affine)
    if s.number("squeeze", 0):
        net.squeeze(s.number("squeeze"))
    _shortcut(net, before, out, stride, affine=affine)
    net.add("relu")


def _inverted(net: Counted, s: Stage, stride: int) -> None:
    """Count an inverted bottleneck: widen, convolve each channel, narrow (MobileNetV2, EfficientNet)."""
    before, out, act = net.signal, s.number("out"), s.word("act", "silu")
    wide = before.channels * s.number("expand", 6)
    if wide != before.channels:
        net.convolve(wide, 1, act=act)
    net.convolve(wide, s.number("kernel", 3), stride=stride, groups=wide, act=act)
    _narrow(net, s, before, out, stride)


def _fused(net: Counted, s: Stage, stride: int) -> None:
    """Count a fused inverted bottleneck: one full convolution widens the signal instead of two (EfficientNetV2)."""
    before, out, act = net.signal, s.number("out"), s.word("act", "silu")
    wide = before.channels * s.number("expand", 4)
    if wide == before.channels:
        net.convolve(out, s.number("kernel", 3), stride=stride, act=act)
        if stride == 1 and before.channels == out:
            net.add()
        return
    net.convolve(wide, s.number("kernel", 3), stride=stride, act=act)
    _narrow(net, s, before, out, stride)


def _narrow(net: Counted, s: Stage, before: Signal, out: int, stride: int) -> None:
    """Count the end of a widened block. It squeezes to a share of the input channels or, with `wide`, of the widened
    channels.
    """
    share = s.number("squeeze", 0)
    if share:
        net.squeeze(max(1, (net.signal.channels if s.flag("wide") else before.channels) // share))
    net.convolve(out, 1, act="none")
    if stride == 1 and before.channels == out:
        net.add()


def _separable(net: Counted, s: Stage, stride: int) -> None:
    """Count a separable convolution: per channel, then across channels."""
    net.convolve(
        net.signal.channels, s.number("kernel", 3), stride=stride, groups=net.signal.channels, norm=False, act="none"
    )
    net.convolve(s.number("out"), 1, bias=s.flag("bias"), norm=s.flag("norm", True), act=s.word("act", "relu"))


def _pool(net: Counted, s: Stage, stride: int) -> None:
    net.pool(s.number("kernel", 3), stride, valid=s.flag("valid"))


def _enlarge(net: Counted, s: Stage, stride: int) -> None:
    net.enlarge(s.number("out"), max(2, stride))


def _linear(net: Counted, s: Stage, _: int) -> None:
    """Count a matrix over the mean of all grid points, or over each of `places`."""
    if "places" not in s.entry:
        net.average()
    net.convolve(s.number("out"), 1, bias=True, norm=False, act=s.word("act", "none"))


BLOCKS: Mapping[str, Callable[[Counted, Stage, int], None]] = {
    "conv": _conv,
    "residual": _residual,
    "inverted": _inverted,
    "fused": _fused,
    "separable": _separable,
    "pool": _pool,
    "enlarge": _enlarge,
    "linear": _linear,
}


def _joined(net: Counted, joins: Sequence[int]) -> None:
    """Count earlier signals that are projected to the current channels and added."""
    own = net.signal
    for channels in joins:
        net.signal = Signal(int(channels), own.size, is_saved=True)
        net.convolve(own.channels, 1, act="none")
        net.signal = own
        net.add()
    net.activate("relu")


def walk(net: Counted, entries: Sequence[Any]) -> Counted:
    """Count every stage in turn."""
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("block") not in BLOCKS:
            raise UnreadableConfiguration(
                f"Every stage must be an object whose 'block' is one of {', '.join(BLOCKS)}.", key="stages"
            )
        s = Stage(entry)
        own, before, net.frozen = net.signal, net.macs, s.flag("frozen")
        _moved(net, s)
        for time in range(s.number("times", 1)):
            if net.layers > MAX_LAYERS:
                raise UnreadableConfiguration(
                    f"The stages describe more than {MAX_LAYERS} layers, which is the maximum.", key="stages"
                )
            BLOCKS[entry["block"]](net, s, max(1, s.number("stride", 1)) if time == 0 else 1)
        if net.signal.places == 1 or "places" in entry:
            net.fixed_macs += net.macs - before
        if s.entry.get("joins"):
            _joined(net, s.entry["joins"])
        if s.flag("side"):
            net.signal = own
    net.frozen = False
    return net


def _moved(net: Counted, s: Stage) -> None:
    """Set the input signal of a stage if it differs from the last output: another level, or several signals
    concatenated.
    """
    own = net.signal
    size = own.size
    if "places" in s.entry:
        size = (s.number("places"), *(1,) * (len(own.size) - 1))
    elif "size" in s.entry:
        size = (s.number("size"),) * len(own.size)
    channels = s.number("in", own.channels)
    if size != own.size:
        net.signal = Signal(channels, size, is_saved=True)
    elif channels != own.channels:
        net.signal = Signal(channels, size)
        net.between(2 * net.signal.elements)


def network(net: Counted, name: str, family: str, law: SampleLaw) -> ModelArchitecture:
    """The model of a counted network on samples of its usual size."""
    params = (
        Tensor("convolutions", Part.OTHER, 1, net.convolution_params, ONCE, quantised=True, per=Per.NEVER),
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


def law_of(net: Counted, size: tuple[int, ...]) -> SampleLaw:
    """The law of a counted network: work is proportional to the frames, pixels or voxels of a sample."""
    places = float(math.prod(size))
    law = SampleLaw(
        unit=("speech", "image", "volume")[len(size) - 1],
        flops_per_position=2 * (net.macs - net.fixed_macs) / places,
        flops_fixed=2 * net.fixed_macs,
        network=Network.DEPTHWISE if net.grouped > net.matrix / 2 else Network.CONVOLUTION,
        layers=net.layers + 1,
        footprint=net.footprint(),
    )
    if len(size) == 1:
        return replace(law, audio_s=size[0] / FRAMES_PER_S, positions_per_second=FRAMES_PER_S)
    return replace(law, height=size[0], width=size[1], frames=size[2] if len(size) > 2 else 1, cell_pixels=1)


def read_stages(config: Config, name: str) -> ModelArchitecture:
    """A network given as a list of stages.

    `size` is the size of its input: one number for audio, two for images, three for volumes. `channels` are the
    input channels, and `stages` is the list of blocks.
    """
    reader = Reader(config, "stages")
    size = tuple(reader.sizes("size", most=MOST_SIZE))
    entries = config.get("stages")
    if not 1 <= len(size) <= 3 or not isinstance(entries, list):
        raise UnreadableConfiguration(
            "'size' must be a list of one to three numbers, and 'stages' must be a list.", key="stages"
        )
    net = walk(Counted(Signal(reader.size("channels", 3), size)), entries)
    return network(net, name, str(config.get("family", "stages")), law_of(net, size))
