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
