"""What a training step does with one sample: bytes kept for backward, bytes moved, kernels launched."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Footprint:
    """One forward pass of training over one sample, activations in 16 bit; backward does twice as much.

    `flops` counts layers that are not trained a third, for they have no backward. What norms and losses keep in 32
    bit under autocast is apart (`kept_wide_bytes`), for it does not double where everything is 32 bit.
    """

    flops: float
    kept_bytes: float
    matrix_bytes: float  # read and written by convolutions and matrices
    elementwise_bytes: float  # by everything between them: norms, activations, sums, pools
    operations: float  # kernels
    kept_wide_bytes: float = 0.0
    grouped_bytes: float = 0.0  # by convolutions that keep channels, or groups of them, apart
    tiled_flops: float = 0.0  # as matrix units execute them, narrow outputs filled up to a tile
    grouped_taps: float = 0.0  # elements that those put out times the places each looks at
    working_bytes: float = (
        0.0  # gradients at the peak, beyond what is kept: late layers are small, early ones find room
    )
    score_pairs: float = 0.0  # of positions and heads whose scores attention forms

    def times(self, share: float) -> Footprint:
        """The footprint of a sample of another size: all but the kernels grows with it.

        Check: twice the pixels, the same kernels.
            >>> Footprint(8e9, 44e6, 40e6, 120e6, 228.0).times(2.0).operations
            228.0
        """
        grown = {k: getattr(self, k) * share for k in self.__slots__ if k != "operations"}
        return replace(self, **grown)
