"""Model of PyTorch's caching allocator: the device memory that it reserves for a sequence of allocations.

Sizes are rounded to 512 bytes. Up to 1 MiB comes from segments of 2 MiB, up to 10 MiB from segments of 20 MiB. Larger
sizes get their own segment, rounded to 2 MiB. A free block is split if enough remains, and merges with free neighbors.
Source: PyTorch's notes on CUDA memory management and c10/cuda/CUDACachingAllocator.cpp, read 2026-11-22.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

MIB_BYTES = 2**20
ROUND_BYTES = 512
SMALL_BYTES, SMALL_SEGMENT_BYTES = MIB_BYTES, 2 * MIB_BYTES
LARGE_BYTES, LARGE_SEGMENT_BYTES = 10 * MIB_BYTES, 20 * MIB_BYTES
SEGMENT_ROUND_BYTES = 2 * MIB_BYTES


@dataclass(slots=True, eq=False)
class Block:
    """A piece of a segment, linked to its neighbors in the segment."""

    address: int
    size: int
    small: bool
    before: Block | None = None
    after: Block | None = None
    free: bool = True


class CachingAllocator:
    """Used and free blocks of all segments; reserved memory is never returned to the device."""

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}
        self._next_address = 0

    def allocate_block(self, nbytes: int) -> Block | None:
        """Returns the best-fitting free block for a number of bytes, or one of a new segment; None for zero bytes."""
        if nbytes <= 0:
            return None
        size = -(-nbytes // ROUND_BYTES) * ROUND_BYTES
        small = size <= SMALL_BYTES
        free = self._free[small]
        at = bisect_left(free, size, key=lambda entry: entry[0])
        block = free.pop(at)[2] if at < len(free) else self._new_segment(size, small=small)
        block.free = False
        left = block.size - size
        if left >= ROUND_BYTES if small else left > SMALL_BYTES:
            self._split_block(block, size)
        return block

    def release_block(self, block: Block | None) -> None:
        """Frees a block and merges it with free neighbors."""
        if block is None:
            return
        block.free = True
        for other in (block.before, block.after):
            if other is not None and other.free:
                self._remove_free_block(other)
                self._merge_blocks(block, other)
        self._add_free_block(block)

    def _new_segment(self, size: int, *, small: bool) -> Block:
        whole = -(-size // SEGMENT_ROUND_BYTES) * SEGMENT_ROUND_BYTES
        taken = SMALL_SEGMENT_BYTES if small else LARGE_SEGMENT_BYTES if size < LARGE_BYTES else whole
        self.reserved_bytes += taken
        self._next_address += taken + 1
        return Block(self._next_address - taken, taken, small)

    def _split_block(self, block: Block, size: int) -> None:
        rest = Block(block.address + size, block.size - size, block.small, block, block.after)
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        self._add_free_block(rest)

    def _merge_blocks(self, block: Block, other: Block) -> None:
        block.size += other.size
        block.address = min(block.address, other.address)
        if other is block.before:
            block.before = other.before
            if other.before is not None:
                other.before.after = block
        else:
            block.after = other.after
            if other.after is not None:
                other.after.before = block

    def _add_free_block(self, block: Block) -> None:
        insort(self._free[block.small], (block.size, block.address, block))

    def _remove_free_block(self, block: Block) -> None:
        free = self._free[block.small]
        free.pop(bisect_left(free, (block.size, block.address), key=lambda entry: entry[:2]))
