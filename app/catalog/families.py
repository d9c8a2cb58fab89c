"""Model families: models whose names differ only in the parameter count."""

from __future__ import annotations

import re

SIZE = re.compile(r"(?<![a-z0-9.])(?:\d+x)?\d+(?:\.\d+)?[bm](?:-a\d+(?:\.\d+)?b)?(?![a-z0-9])")


def strip_size(identity: str) -> str:
    """Returns a model's name in lower case with its size replaced by `*`.

    Check:
        >>> strip_size("meta-llama/Llama-3.1-70B-Instruct")
        'meta-llama/llama-3.1-*-instruct'
        >>> strip_size("Qwen/Qwen3-30B-A3B")
        'qwen/qwen3-*'
    """
    return SIZE.sub("*", identity.lower())
