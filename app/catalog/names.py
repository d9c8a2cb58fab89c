"""Names as people type them: folded so that case, punctuation, size words and tags do not matter."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from app.sizing.hardware.engines import ALIASES

_PUNCTUATION = re.compile(r"[^a-z0-9.:]+")
_SIZE_WORDS = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)-*(trillion|billion|million|bn|mn|t|b|m)(?![a-z0-9])")
# A decimal point written as an underscore between hyphens: "Qwen-1_8B" has 1.8 billion, not 8.
_DECIMAL = re.compile(r"(?<=-)(\d+)_(\d+)(?=b)")
_SHORT = {"trillion": "t", "billion": "b", "bn": "b", "million": "m", "mn": "m"}
# What names the file rather than the model: a quantisation or a container behind the name.
_FILE_SUFFIX = re.compile(
    r"[-:](?:latest|gguf|awq|gptq|exl2|mlx|(?:w\d+a\d+)|(?:bnb-)?(?:[348]-?bit)|fp8(?:-dynamic)?|int[48]|nvfp4|mxfp4|fp16|bf16|f16|i?q\d(?:[-_][a-z0-9]+)*)$"
)


def folded(name: str) -> str:
    """Lower case, every run of punctuation one hyphen, the organisation's slash included, size words short; the
    colon of a tag stays, because llama3:8b and llama3-8b are different models.

    Check: "Meta-Llama/Llama_3.1 8 Billion" and "meta-llama-llama-3.1-8b" fold alike.
    """
    plain = _PUNCTUATION.sub("-", name.lower().replace("+", "-plus")).strip("-")
    return _SIZE_WORDS.sub(lambda m: m[1] + _SHORT.get(m[2], m[2]), plain)


def engine_slug(name: str) -> str:
    """An engine's name in the catalogue; what is not known by another name is only folded.

    Check: "TensorRT-LLM" and "trt-llm" are tensorrt-llm; "llama.cpp (text-generation-webui)" is llama.cpp.
    """
    key = folded(name).removesuffix("-text-generation-webui")
    return ALIASES.get(key, key)


def squashed(name: str) -> str:
    """Folded, with nothing between words: "llama 3.1 8b", "llama3.1-8b" and "llama-3.1:8b" are one."""
    return re.sub(r"[-:]", "", folded(name))


def without_file(name: str) -> str:
    """A folded name without the suffixes that name a quantised file or its container.

    Check: "llama3.1:70b-instruct-q4_K_M" leaves "llama3.1:70b-instruct".
    """
    key, before = folded(name), ""
    while key != before:
        before, key = key, _FILE_SUFFIX.sub("", key).strip("-:")
    return key


def words(name: str) -> frozenset[str]:
    """The words of a name, letters and the numbers behind them apart: "qwen2.5" is qwen and 2.5."""
    return frozenset(re.findall(r"\d+(?:\.\d+)?[a-z]*|[a-z]+", folded(name)))


def containing(name: str, names: Iterable[tuple[str, str]]) -> list[str]:
    """Models (second) of which some name (first) has every word that was typed, shortest name first."""
    typed = words(_DECIMAL.sub(r"\1.\2", name.lower()))
    if not any(len(w) >= 3 and w.isalpha() for w in typed):
        return []
    found: dict[str, int] = {}
    for known, model in names:
        if typed <= words(known):
            found[model] = min(len(known), found.get(model, len(known)))
    return sorted(found, key=lambda m: (found[m], m))


def nearest(name: str, names: Iterable[str], *, limit: int = 5) -> list[str]:
    """The names most like one, best first."""
    known = {folded(n): n for n in names}
    return [known[m] for m in difflib.get_close_matches(folded(name)[:120], sorted(known), n=limit, cutoff=0.5)]
