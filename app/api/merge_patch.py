"""JSON merge patches (RFC 7396)."""

from __future__ import annotations

from typing import Any

Part = dict[str, Any]


def apply_merge_patch(whole: Part, patch: Part) -> Part:
    """Returns `whole` with a JSON merge patch applied (RFC 7396): members replace, null removes, objects merge
    recursively.
    """
    result = dict(whole)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            below = result.get(name)
            result[name] = apply_merge_patch(below if isinstance(below, dict) else {}, value)
        else:
            result[name] = value
    return result
