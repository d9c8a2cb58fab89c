"""Models that differ in size alone: one family, one name but for the parameters in it."""

from __future__ import annotations

import re

SIZE = re.compile(r"(?<![a-z0-9.])(?:\d+x)?\d+(?:\.\d+)?[bm](?:-a\d+(?:\.\d+)?b)?(?![a-z0-9])")


def sizeless(identity: str) -> str:
    """A model's name without the size that stands in it.

    Check:
        >>> sizeless("meta-llama/Llama-3.1-70B-Instruct")
        'meta-llama/llama-3.1-*-instruct'
        >>> sizeless("Qwen/Qwen3-30B-A3B")
        'qwen/qwen3-*'
    """
    return SIZE.sub("*", identity.lower())
