"""What attention keeps and reads, against counting token by token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.model.attention import AttentionGroup

FULL = AttentionGroup(1, 64.0, 2, 256.0, 256.0)
WINDOWED = replace(FULL, window_tokens=100.0)
SPARSE = replace(FULL, read_tokens=50.0, index_elements=8.0)


@pytest.mark.parametrize(
    ("group", "kept", "read", "held", "read_elements"),
    [
        (FULL, 400, 400, 64 * 400, 64 * 400),
        (WINDOWED, 100, 100, 64 * 100, 64 * 100),
        # keeps all keys and their index, scans the index, reads fifty
        (SPARSE, 400, 50, 72 * 400, 64 * 50 + 8 * 400),
        (replace(FULL, crosses=True), 400, 400, 0, 0),
    ],
)
def test_what_is_kept_and_read_at_a_context(
    group: AttentionGroup, kept: float, read: float, held: float, read_elements: float
) -> None:
    assert (group.cached_tokens(400), group.tokens_read(400)) == (kept, read)
    assert (group.cached_elements(400), group.read_elements(400)) == (held, read_elements)


@pytest.mark.parametrize("group", [FULL, WINDOWED, SPARSE])
@pytest.mark.parametrize("tokens", [1, 50, 99, 100, 101, 400])
def test_a_prompts_mean_is_the_sum_over_its_tokens(group: AttentionGroup, tokens: int) -> None:
    assert group.mean_tokens_read(tokens) == pytest.approx(
        sum(group.tokens_read(i) for i in range(1, tokens + 1)) / tokens
    )
