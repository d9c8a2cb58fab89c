"""What one sample costs in a training step: bytes kept for backward, bytes moved, kernels launched."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Footprint:
    """One forward pass of training over one sample with 16-bit activations; backward costs twice as much.

    `flops` counts layers that are not trained at one third, because they have no backward. Bytes that norms and
    losses keep in 32 bit under autocast are separate (`kept_wide_bytes`), because they do not double in 32-bit
    training.
    """

    flops: float
    kept_bytes: float  # bytes kept for backward
    matrix_bytes: float  # bytes that convolutions and matrices read and write
    elementwise_bytes: float  # bytes that kernels between them move: norms, activations, sums, pools
    operations: float  # kernels
    kept_wide_bytes: float = 0.0  # bytes kept in 32 bit under autocast
    grouped_bytes: float = 0.0  # bytes that grouped and depthwise convolutions read and write
    tiled_flops: float = 0.0  # FLOPs that matrix units execute, with narrow outputs padded to a tile
    grouped_taps: float = 0.0  # output elements of grouped convolutions times kernel positions
    # Gradient bytes at the peak of backward, in addition to the bytes kept: late layers are small, and early layers
    # reuse the memory that late layers freed.
    working_bytes: float = 0.0
    score_pairs: float = 0.0  # pairs of positions, times heads and layers, whose attention scores are formed

    def scaled_by(self, share: float) -> Footprint:
        """The footprint of a sample that is `share` times as large. All fields except the kernel count grow.

        Check: twice the pixels, the same kernels.
            >>> Footprint(8e9, 44e6, 40e6, 120e6, 228.0).scaled_by(2.0).operations
            228.0
        """
        scaled = {k: getattr(self, k) * share for k in self.__slots__ if k != "operations"}
        return replace(self, **scaled)
