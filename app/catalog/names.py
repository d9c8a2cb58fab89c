"""Names as people type them: folded so that case, punctuation, size words and tags do not matter."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from app.sizing.hardware.engines import ALIASES
from app.sizing.model.formats import WEIGHT_FORMATS

_PUNCTUATION = re.compile(r"[^a-z0-9.:]+")
_SIZE_WORDS = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)-*(trillion|billion|million|bn|mn|t|b|m)(?![a-z0-9])")
# A decimal point written as an underscore between hyphens: "Qwen-1_8B" has 1.8 billion, not 8.
_DECIMAL = re.compile(r"(?<=-)(\d+)_(\d+)(?=b)")
LONGEST_SHOWN = 60
LEAST_ALIKE = 0.5  # of two names, for one to be offered for the other
BEGINS = 0.97  # what likeness to a name's beginning counts of likeness to a name
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


def quoted(name: str) -> str:
    """A name as it was written, cut short."""
    return repr(name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}...")


def engine_slug(name: str) -> str:
    """An engine's name in the catalogue; what is not known by another name is only folded.

    Check: "TensorRT-LLM" and "trt-llm" are tensorrt-llm; "llama.cpp (text-generation-webui)" is llama.cpp.
    """
    key = folded(name).removesuffix("-text-generation-webui")
    return ALIASES.get(key, key)


# Weight formats as people write them, folded, where it is not as the catalogue does.
_FORMATS = {
    "awq": "int4-awq",
    "awq-int4": "int4-awq",
    "gptq": "int4-gptq",
    "gptq-int4": "int4-gptq",
    "gptq-int8": "int8-gptq",
    "mlx-4bit": "int4-mlx",
    "mlx-8bit": "int8-mlx",
    "bnb-4bit": "nf4",
    "w8a8": "int8",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp8-e4m3": "fp8",
    "float8": "fp8",
}


def format_slug(name: str) -> str:
    """A format's name in the catalogue; what is not known by another name is only in lower case.

    Check: "AWQ" is int4-awq, "Q4_K_M" and "gguf q4_k_m" are gguf-q4_k_m, "BF16" is bf16.
    """
    key = folded(name)
    block = re.fullmatch(r"(?:gguf-)?((?:i?q\d|f16)(?:-[a-z0-9]+)*)", key)
    if block is not None and (found := "gguf-" + block[1].replace("-", "_")) in WEIGHT_FORMATS:
        return found
    return _FORMATS.get(key, key if key in WEIGHT_FORMATS else name.strip().lower())


# What of a model's name says how its weights are stored, folded, with the formats it may mean; the first that fits.
_STORED = tuple(
    (re.compile(rf"(?<![a-z0-9])(?:{pattern})(?![a-z0-9])"), formats)
    for pattern, formats in (
        ("gptq-(?:int8|8-?bit|w8a16)", ("int8-gptq",)),
        ("awq", ("int4-awq",)),
        ("gptq", ("int4-gptq",)),
        ("mlx.*8-?bit", ("int8-mlx",)),
        ("mlx.*(?:4-?bit|q4)|mlx-4-?bit", ("int4-mlx",)),
        ("bnb-4-?bit|nf4|4-?bit-bnb", ("nf4",)),
        ("gguf", ("gguf-q4_k_m", "gguf-q5_k_m", "gguf-q8_0")),
        ("nvfp4|fp4", ("nvfp4",)),
        ("mxfp4", ("mxfp4",)),
        ("fp8(?:-dynamic|-kv|-block)?|w8a8-fp8", ("fp8",)),
        ("w8a8|int8", ("int8",)),
        ("w4a16|int4|4-?bit", ("int4-awq", "int4-gptq")),
        ("w8a16", ("int8-gptq",)),
        ("bf16", ("bf16",)),
        ("fp16|f16", ("fp16",)),
    )
)
_BLOCK = re.compile(r"(?<![a-z0-9])i?(q\d)((?:-[a-z0-9]+)*)$")


def formats_in(name: str) -> tuple[str, ...]:
    """Weight formats that a model's name says its files are in; none where it says nothing.

    Check: "TheBloke/Llama-2-70B-AWQ" says int4-awq, "llama3.1:70b-instruct-q4_K_M" gguf-q4_k_m.
    """
    key = folded(name).replace(":", "-")
    block = _BLOCK.search(key.removesuffix("-gguf"))
    if block is not None:
        alike = [f for f in WEIGHT_FORMATS if f.startswith(f"gguf-{block[1]}")]
        whole = f"gguf-{block[1]}{block[2].replace('-', '_')}"
        return (whole,) if whole in WEIGHT_FORMATS else tuple(alike)
    return next((formats for pattern, formats in _STORED if pattern.search(key)), ())


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


def likest(typed: str, names: Iterable[str], limit: int) -> list[str]:
    """The names most like what was typed, best first: as a whole, or as they begin where more follows.

    Check:
        >>> likest("h1000", ["a10", "a100-pcie", "h100-sxm5", "gh200"], 2)
        ['h100-sxm5', 'a10']
    """
    matcher, found = difflib.SequenceMatcher(b=typed), []
    for name in names if typed else ():
        alike = max(
            likeness(matcher, name), *(BEGINS * likeness(matcher, name[: len(typed) + more]) for more in (0, 1))
        )
        if alike:
            found.append((-alike, len(name), name))
    return [name for *_, name in sorted(found)[:limit]]


def likeness(matcher: difflib.SequenceMatcher[str], name: str) -> float:
    """How much of two names is the same, from `LEAST_ALIKE` to 1; 0 below that."""
    matcher.set_seq1(name)
    if matcher.real_quick_ratio() < LEAST_ALIKE or matcher.quick_ratio() < LEAST_ALIKE:
        return 0.0
    alike = matcher.ratio()
    return alike if alike >= LEAST_ALIKE else 0.0


def nearest(name: str, names: Iterable[str], *, limit: int = 5) -> list[str]:
    """The names most like one, best first."""
    known = {folded(n): n for n in names}
    return [known[n] for n in likest(folded(name)[:120], known, limit)]
