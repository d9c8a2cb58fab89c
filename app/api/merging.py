"""A request changed in places: a JSON merge patch."""

from __future__ import annotations

from typing import Any

Part = dict[str, Any]


def merged(whole: Part, patch: Part) -> Part:
    """A JSON merge patch (RFC 7396): members replace, null removes, objects are merged in turn."""
    found = dict(whole)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            below = found.get(name)
            found[name] = merged(below if isinstance(below, dict) else {}, value)
        else:
            found[name] = value
    return found
