"""Counts a network operation by operation, as a list of blocks over a signal of one, two or three dimensions.

Activations kept for backward follow eager modules: a convolution keeps its input, a norm its input, an in-place
rectifier its output, a smooth activation its input. A tensor that one operation keeps is not counted again for the
next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.errors import UnreadableConfiguration
from app.sizing.model.footprint import Footprint

HALF = 2.0  # bytes of an element in 16 bit
TILE = 64  # output channels that a kernel on a matrix unit computes at a time
MASK_BYTES = 8.0  # bytes per index that max pooling keeps
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
    def places(self) -> float:
        return float(math.prod(self.size))

    @property
    def elements(self) -> float:
        return self.channels * self.places


@dataclass(slots=True)
class Counted:
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
    places_kept: float = 0.0  # indices that max pooling keeps for backward, the same size in every precision
    matrix: float = 0.0  # elements that ungrouped convolutions and matrices read and write
    elementwise: float = 0.0  # elements that kernels between the matrices read and write
    grouped: float = 0.0  # elements that grouped convolutions read and write
    taps: float = 0.0  # output elements of grouped convolutions times kernel positions
    operations: float = 0.0  # kernels
    peak: float = 0.0  # peak elements in backward: those kept so far, and gradients of a layer's input and output
    frozen: bool = False  # whether the following layers are not trained

    def keep(self, elements: float) -> None:
        self.saved_elements += 0.0 if self.frozen else elements

    def between(self, elements: float, kernels: float = 1.0) -> None:
        """Count kernels between the matrices, and the elements that they read and write."""
        self.elementwise += elements
        self.operations += kernels

    def multiply(self, outputs: Signal, weights: int, macs: float, *, grouped: bool = False) -> None:
        """Count a convolution or matrix from the signal to `outputs`; it keeps its input for backward."""
        if outputs.elements > MAX_ELEMENTS or self.convolution_params + weights > 1e15:
            raise UnreadableConfiguration(
                "The stages describe a network that is too large: a signal may have at most 1e13 elements, "
                "and the network at most 1e15 parameters.",
                key="stages",
            )
        if not self.signal.is_saved:
            self.keep(self.signal.elements)
            self.signal.is_saved = True
        outputs.is_saved = False
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
        self.peak = max(self.peak, self.saved_elements + self.signal.elements + outputs.elements)
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
        self.multiply(after, weights, weights * after.places, grouped=groups > 1)
        self.taps += after.elements * kernel ** len(size) if groups > 1 else 0.0
        self.convolution_params += outputs if bias else 0
        if norm and affine:
            self.between(2 * after.elements, 2.0)
        elif norm:
            self.normalise()
        self.activate(act)

    def normalise(self) -> None:
        """Count a norm over a batch or a channel, which keeps its input and writes a new output."""
        if not self.signal.is_saved:
            self.keep(self.signal.elements)
        self.norm_params += 2 * self.signal.channels
        self.between(2 * self.signal.elements, 2.0)
        self.signal.is_saved = False

    def activate(self, act: str) -> None:
        """Count an activation: a rectifier keeps its output, every other activation its input."""
        if act not in ACTIVATIONS:
            raise UnreadableConfiguration(f"'act' must be one of {', '.join(ACTIVATIONS)}.", key="stages")
        if act == "none":
            return
        self.between((2 if act == "relu" else 4) * self.signal.elements, 1.0 if act == "relu" else 2.0)
        if not self.signal.is_saved:
            self.keep(self.signal.elements)
        self.signal.is_saved = act == "relu"

    def squeeze(self, inner: int) -> None:
        """Count squeeze and excitation, which scales each channel by a weight computed from all channels."""
        n, c = self.signal.elements, self.signal.channels
        if not self.signal.is_saved:
            self.keep(n)
        self.convolution_params += 2 * c * inner + inner + c
        self.macs += 2.0 * c * inner
        self.trained_macs += 2.0 * c * inner
        self.layers += 2
        self.between(3 * n, 7.0)
        self.signal.is_saved = False

    def add(self, act: str = "none") -> None:
        """Count the addition of a shortcut to the signal."""
        self.between(3 * self.signal.elements)
        self.signal.is_saved = False
        self.activate(act)

    def pool(self, kernel: int, stride: int, *, valid: bool = False) -> None:
        """Count max pooling over windows."""
        before = self.signal
        size = tuple(max(1, -(-s // stride)) if not valid else max(1, (s - kernel) // stride + 1) for s in before.size)
        after = Signal(before.channels, size)
        if not before.is_saved:
            self.keep(before.elements)
        self.places_kept += 0.0 if self.frozen else after.elements
        self.between(before.elements + after.elements * (1 + MASK_BYTES / HALF))
        self.signal = after

    def enlarge(self, outputs: int, factor: int) -> None:
        """Count a transposed convolution whose kernel is as wide as its stride."""
        before = self.signal
        after = Signal(outputs, tuple(s * factor for s in before.size))
        weights = before.channels * outputs * factor ** len(before.size)
        self.multiply(after, weights, weights * before.places)
        self.convolution_params += outputs

    def average(self) -> None:
        """Count the mean over all grid points."""
        self.between(self.signal.elements)
        self.signal = Signal(self.signal.channels, (1,) * len(self.signal.size))

    def footprint(self) -> Footprint:
        """The training footprint of one sample."""
        return Footprint(
            flops=2 * self.trained_macs,
            kept_bytes=HALF * self.saved_elements + MASK_BYTES * self.places_kept,
            kept_wide_bytes=MASK_BYTES * self.places_kept,
            matrix_bytes=HALF * self.matrix,
            elementwise_bytes=HALF * self.elementwise,
            operations=self.operations,
            grouped_bytes=HALF * self.grouped,
            tiled_flops=2 * self.tiled_macs,
            grouped_taps=self.taps,
            working_bytes=HALF * max(0.0, self.peak - self.saved_elements),
        )
