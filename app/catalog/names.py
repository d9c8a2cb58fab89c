"""Names as people type them: folded so that case and punctuation do not matter."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_PUNCTUATION = re.compile(r"[^a-z0-9.:]+")


def folded(name: str) -> str:
    """Lower case, every run of punctuation one hyphen, the organisation's slash included; the colon of a
    tag stays, because llama3:8b and llama3-8b are different models.

    Check: "Meta-Llama/Llama_3.1 8B" and "meta-llama-llama-3.1-8b" fold alike.
    """
    return _PUNCTUATION.sub("-", name.lower()).strip("-")


def nearest(name: str, names: Iterable[str], *, limit: int = 5) -> list[str]:
    """The names most like one, best first."""
    known = {folded(n): n for n in names}
    return [known[m] for m in difflib.get_close_matches(folded(name)[:120], sorted(known), n=limit, cutoff=0.5)]
