"""A network as a list of blocks over a signal of one, two or three dimensions, counted operation by operation.

Kept for backward, as eager modules do: every convolution its input, a norm its input, a rectifier in place its
output, a smooth activation its input; what one keeps the next does not keep again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.errors import UnreadableConfiguration
from app.sizing.model.footprint import Footprint

HALF = 2.0  # bytes of an element in 16 bit
TILE = 64  # output channels that a matrix unit's kernel computes at a time
MASK_BYTES = 8.0  # of a place that max pooling remembers
# A rectifier works in place; every other copies what it found, for backward asks for it.
ACTIVATIONS = ("relu", "relu6", "silu", "none")
MAX_ELEMENTS = 1e13


@dataclass(slots=True)
class Signal:
    """What flows: channels over a grid, and whether something keeps it for backward already."""

    channels: int
    size: tuple[int, ...]
    kept: bool = False

    @property
    def places(self) -> float:
        return float(math.prod(self.size))

    @property
    def elements(self) -> float:
        return self.channels * self.places


@dataclass(slots=True)
class Counted:
    """A network under count: one sample, `macs` multiply-adds; grids shrink as padded convolutions shrink them."""

    signal: Signal
    convolution_params: int = 0
    norm_params: int = 0
    macs: float = 0.0
    fixed_macs: float = 0.0  # of what does not grow with the sample
    trained_macs: float = 0.0
    tiled_macs: float = 0.0
    layers: int = 0
    kept: float = 0.0
    places_kept: float = 0.0  # of the greatest in every window, which no precision widens
    matrix: float = 0.0
    elementwise: float = 0.0
    grouped: float = 0.0
    taps: float = 0.0
    operations: float = 0.0
    peak: float = 0.0  # elements that lie at once in backward: what is kept so far, gradients of a layer's ends
    frozen: bool = False  # what follows is not trained

    def keep(self, elements: float) -> None:
        self.kept += 0.0 if self.frozen else elements

    def between(self, elements: float, kernels: float = 1.0) -> None:
        """Kernels between the matrices, and the elements they read and write."""
        self.elementwise += elements
        self.operations += kernels

    def multiply(self, outputs: Signal, weights: int, macs: float, *, grouped: bool = False) -> None:
        """A convolution or matrix from the signal to `outputs`: it keeps what it reads."""
        if outputs.elements > MAX_ELEMENTS or self.convolution_params + weights > 1e15:
            raise UnreadableConfiguration("The stages describe a network too large to be counted.", key="stages")
        if not self.signal.kept:
            self.keep(self.signal.elements)
            self.signal.kept = True
        outputs.kept = False
        moved = self.signal.elements + outputs.elements
        self.convolution_params += weights
        self.macs += macs
        trained = macs / 3 if self.frozen else macs
        self.trained_macs += trained
        self.tiled_macs += trained if grouped else trained * -(-outputs.channels // TILE) * TILE / outputs.channels
        self.matrix += 0.0 if grouped else moved
        self.grouped += moved if grouped else 0.0
        self.operations += 1.0
        self.layers += 1
        self.peak = max(self.peak, self.kept + self.signal.elements + outputs.elements)
        self.signal = outputs

    def convolve(
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
        """A convolution, its norm (or, `affine`, a frozen one) and its activation."""
        before = self.signal
        if groups < 1 or before.channels % groups or outputs % groups:
            raise UnreadableConfiguration(f"{groups} groups do not divide the channels of a stage.", key="stages")
        size = tuple(max(1, -(-s // stride)) if not valid else max(1, (s - kernel) // stride + 1) for s in before.size)
        weights = before.channels // groups * outputs * kernel ** len(size)
        after = Signal(outputs, size)
        self.multiply(after, weights, weights * after.places, grouped=groups > 1)
        self.taps += after.elements * kernel ** len(size) if groups > 1 else 0.0
        self.convolution_params += outputs if bias else 0
        if norm and affine:
            self.between(2 * after.elements, 2.0)
        elif norm:
            self.normalise()
        self.activate(act)

    def normalise(self) -> None:
        """A norm over a batch or a channel: it keeps its input and writes anew; the batches are counted too."""
        if not self.signal.kept:
            self.keep(self.signal.elements)
        self.norm_params += 2 * self.signal.channels
        self.between(2 * self.signal.elements, 2.0)
        self.signal.kept = False

    def activate(self, act: str) -> None:
        """A rectifier keeps what it leaves, any other activation what it found."""
        if act not in ACTIVATIONS:
            raise UnreadableConfiguration(f"'act' is one of {', '.join(ACTIVATIONS)}.", key="stages")
        if act == "none":
            return
        self.between((2 if act == "relu" else 4) * self.signal.elements, 1.0 if act == "relu" else 2.0)
        if not self.signal.kept:
            self.keep(self.signal.elements)
        self.signal.kept = act == "relu"

    def squeeze(self, inner: int) -> None:
        """Channels scaled by what is seen of all of them (squeeze and excitation)."""
        n, c = self.signal.elements, self.signal.channels
        if not self.signal.kept:
            self.keep(n)
        self.convolution_params += 2 * c * inner + inner + c
        self.macs += 2.0 * c * inner
        self.trained_macs += 2.0 * c * inner
        self.layers += 2
        self.between(3 * n, 7.0)
        self.signal.kept = False

    def add(self, act: str = "none") -> None:
        """A shortcut added to the signal."""
        self.between(3 * self.signal.elements)
        self.signal.kept = False
        self.activate(act)

    def pool(self, kernel: int, stride: int, *, valid: bool = False) -> None:
        """The greatest of every window."""
        before = self.signal
        size = tuple(max(1, -(-s // stride)) if not valid else max(1, (s - kernel) // stride + 1) for s in before.size)
        after = Signal(before.channels, size)
        if not before.kept:
            self.keep(before.elements)
        self.places_kept += 0.0 if self.frozen else after.elements
        self.between(before.elements + after.elements * (1 + MASK_BYTES / HALF))
        self.signal = after

    def enlarge(self, outputs: int, factor: int) -> None:
        """A transposed convolution whose kernel is as wide as its stride."""
        before = self.signal
        after = Signal(outputs, tuple(s * factor for s in before.size))
        weights = before.channels * outputs * factor ** len(before.size)
        self.multiply(after, weights, weights * before.places)
        self.convolution_params += outputs

    def average(self) -> None:
        """The mean over all places."""
        self.between(self.signal.elements)
        self.signal = Signal(self.signal.channels, (1,) * len(self.signal.size))

    def footprint(self) -> Footprint:
        """What training does with one sample."""
        return Footprint(
            flops=2 * self.trained_macs,
            kept_bytes=HALF * self.kept + MASK_BYTES * self.places_kept,
            kept_wide_bytes=MASK_BYTES * self.places_kept,
            matrix_bytes=HALF * self.matrix,
            elementwise_bytes=HALF * self.elementwise,
            operations=self.operations,
            grouped_bytes=HALF * self.grouped,
            tiled_flops=2 * self.tiled_macs,
            grouped_taps=self.taps,
            working_bytes=HALF * max(0.0, self.peak - self.kept),
        )
