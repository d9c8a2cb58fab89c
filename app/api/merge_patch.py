"""JSON merge patches (RFC 7396)."""

from __future__ import annotations

from typing import Any

Part = dict[str, Any]


def apply_merge_patch(whole: Part, patch: Part) -> Part:
    """Returns `whole` with a merge patch applied: members replace, null removes, objects merge recursively."""
    return _merge(whole, patch, keeps_null=False)


def combine_merge_patches(first: Part, second: Part) -> Part:
    """Returns the merge patch that does what two of them do, one after the other."""
    return _merge(first, second, keeps_null=True)


def _merge(whole: Part, patch: Part, *, keeps_null: bool) -> Part:
    result = dict(whole)
    for name, value in patch.items():
        if value is None and not keeps_null:
            result.pop(name, None)
        elif isinstance(value, dict):
            below = result.get(name)
            result[name] = _merge(below if isinstance(below, dict) else {}, value, keeps_null=keeps_null)
        else:
            result[name] = value
    return result
