"""The model of the caching allocator: rounding, segments, splits and joins."""

from __future__ import annotations

from random import Random

from calibration.tracing.caching import MIB_BYTES, Block, CachingAllocator


def test_small_blocks_share_a_segment_of_two_mebibytes() -> None:
    allocator = CachingAllocator()
    for _ in range(4):  # of half a mebibyte
        allocator.allocate_block(MIB_BYTES // 2)
    assert allocator.reserved_bytes == 2 * MIB_BYTES
    allocator.allocate_block(1)
    assert allocator.reserved_bytes == 4 * MIB_BYTES


def test_a_large_block_gets_its_own_segment_and_the_next_one_reuses_it() -> None:
    allocator = CachingAllocator()
    first = allocator.allocate_block(51 * MIB_BYTES)
    assert allocator.reserved_bytes == 52 * MIB_BYTES  # rounded to 2
    allocator.release_block(first)
    allocator.allocate_block(30 * MIB_BYTES)
    allocator.allocate_block(20 * MIB_BYTES)  # the rest of it
    assert allocator.reserved_bytes == 52 * MIB_BYTES


def test_free_neighbours_join_and_others_do_not() -> None:
    allocator = CachingAllocator()
    whole = allocator.allocate_block(64 * MIB_BYTES)
    allocator.release_block(whole)
    pieces = [allocator.allocate_block(16 * MIB_BYTES) for _ in range(4)]
    for piece in (pieces[0], pieces[2]):
        allocator.release_block(piece)
    allocator.allocate_block(32 * MIB_BYTES)  # 32 are free, not side by side
    assert allocator.reserved_bytes == 96 * MIB_BYTES
    allocator.release_block(pieces[1])
    allocator.allocate_block(48 * MIB_BYTES)
    assert allocator.reserved_bytes == 96 * MIB_BYTES


def test_reserved_memory_never_falls_below_memory_in_use() -> None:
    random, allocator = Random(1), CachingAllocator()
    held: list[tuple[Block | None, int]] = []
    for _ in range(2000):
        if held and random.random() < 0.5:
            allocator.release_block(held.pop(random.randrange(len(held)))[0])
        else:
            size = int(2 ** random.uniform(0, 28))
            held.append((allocator.allocate_block(size), size))
        assert allocator.reserved_bytes >= sum(size for _, size in held)
    for block, _ in held:
        allocator.release_block(block)
    reserved = allocator.reserved_bytes
    allocator.allocate_block(20 * MIB_BYTES)  # everything joined again: one of the segments has room
    assert allocator.reserved_bytes == reserved
