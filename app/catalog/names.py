"""Names as people type them: normalization, model families, countries and areas, spellings of hardware and providers.

The spellings themselves are rows of `data/names.toml`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from app.catalog.files import read_data_file
from app.sizing.facts import build
from app.sizing.hardware.engines import ALIASES
from app.sizing.model.formats import WEIGHT_FORMATS


@dataclass(frozen=True, slots=True)
class FormatPattern:
    """A pattern in folded model names that states the weight format, with the formats it may mean."""

    pattern: str
    formats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Respelling:
    """A replacement in compacted names."""

    typed: str
    means: str


@dataclass(frozen=True, slots=True)
class UnsizedMethods:
    """Training methods that are not sized (words in lower case), and what can be sized in their place."""

    names: str
    advice: str


@dataclass(frozen=True, slots=True)
class ExtraWords:
    """Additional words for the accelerators whose slug has a prefix."""

    prefix: str
    words: str


@dataclass(frozen=True, slots=True)
class NameTables:
    """Spellings of names; comments in the data file describe each table."""

    source: str
    read: str
    noise_words: tuple[str, ...]
    stage_words: tuple[str, ...]
    network_words: tuple[str, ...]
    packaging: tuple[str, ...]
    respellings: tuple[Respelling, ...]
    format_patterns: tuple[FormatPattern, ...]
    named_methods: tuple[str, ...]
    unsized_methods: tuple[UnsizedMethods, ...]
    extra_words: tuple[ExtraWords, ...]
    formats: Mapping[str, str]
    kv_formats: Mapping[str, str]
    optimizers: Mapping[str, str]
    recomputations: Mapping[str, str]
    zero_stages: Mapping[str, int]
    precisions: Mapping[str, str]
    methods: Mapping[str, str]
    lora_targets: Mapping[str, str]
    modifiers: Mapping[str, str]
    vendor_words: Mapping[str, str]
    titles: Mapping[str, str]
    providers: Mapping[str, str]
    vendors: Mapping[str, str]
    countries: Mapping[str, str]
    areas: Mapping[str, str]


NAME_TABLES = build(NameTables, tomllib.loads(read_data_file("names.toml")), where="names.toml")
NOISE_WORDS = frozenset(NAME_TABLES.noise_words)  # words that do not distinguish accelerators

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


_PUNCTUATION = re.compile(r"[^a-z0-9.:]+")
_SIZE_WORDS = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)-*(trillion|billion|million|bn|mn|t|b|m)(?![a-z0-9])")
# A decimal point written as an underscore between hyphens: "Qwen-1_8B" has 1.8 billion, not 8.
_DECIMAL = re.compile(r"(?<=-)(\d+)_(\d+)(?=b)")
MAX_SHOWN_CHARS = 60
MIN_SIMILARITY = 0.5  # similarity from which a name is suggested
PREFIX_WEIGHT = 0.97  # weight of the similarity to a name's beginning, relative to that to the whole name
_SHORT = {"trillion": "t", "billion": "b", "bn": "b", "million": "m", "mn": "m"}
# Suffixes that describe the file rather than the model: a quantization or a container format.
_FILE_SUFFIX = re.compile(
    r"[-:](?:latest|gguf|awq|gptq|exl2|mlx|(?:w\d+a\d+)|(?:bnb-)?(?:[2-8]-?bits?)|gs\d+|mxfp4-q8|fp8(?:-dynamic)?|int[48]|nvfp4|mxfp4|fp16|bf16|f16|i?q\d(?:[-_][a-z0-9]+)*)$"
)


def fold_name(name: str) -> str:
    """Returns a name in lower case, with each run of punctuation (including the slash) as one hyphen and size words
    shortened. The colon of a tag stays, because llama3:8b and llama3-8b are different models.

    Check: "Meta-Llama/Llama_3.1 8 Billion" and "meta-llama-llama-3.1-8b" fold to the same text.
    """
    plain = _PUNCTUATION.sub("-", name.lower().replace("+", "-plus")).strip("-")
    return _SIZE_WORDS.sub(lambda m: m[1] + _SHORT.get(m[2], m[2]), plain)


def quote_name(name: str) -> str:
    """Returns a name in quotes, truncated."""
    return repr(name if len(name) <= MAX_SHOWN_CHARS else f"{name[:MAX_SHOWN_CHARS]}...")


def engine_slug(name: str) -> str:
    """Returns the catalog's name of an engine; an unknown name is only folded.

    Check: "TensorRT-LLM" and "trt-llm" are tensorrt-llm; "llama.cpp (text-generation-webui)" is llama.cpp.
    """
    key = fold_name(name).removesuffix("-text-generation-webui")
    return ALIASES.get(key, key)


def format_slug(name: str) -> str:
    """Returns the catalog's name of a weight format; an unknown name is only converted to lower case.

    Check: "AWQ" is int4-awq, "Q4_K_M" and "gguf q4_k_m" are gguf-q4_k_m, "UD-IQ2_XXS" is gguf-iq2_xxs, "BF16" is bf16.
    """
    key = fold_name(name).removeprefix("ud-")
    block = re.fullmatch(r"(?:gguf-)?((?:i?q\d|f16)(?:-[a-z0-9]+)*)", key)
    if block is not None and (block_format := "gguf-" + block[1].replace("-", "_")) in WEIGHT_FORMATS:
        return block_format
    return NAME_TABLES.formats.get(key, key if key in WEIGHT_FORMATS else name.strip().lower())


def kv_format_slug(name: str) -> str:
    """Returns the catalog's name of a KV cache format; an unknown name is read as a weight format.

    Check: "fp8_e5m2" is fp8, "f16" is fp16, "q8_0" is gguf-q8_0.
    """
    return NAME_TABLES.kv_formats.get(fold_name(name)) or format_slug(name)


def option_slug(name: str, aliases: Mapping[str, str]) -> str:
    """Returns the catalog's name of an option that tools spell differently; an unknown name is returned unchanged.

    Check: with the optimizers, "paged_adamw_8bit" is adamw-8bit and "adamw_torch_fused" is adamw.
    """
    key = fold_name(name)
    return aliases.get(key, key if key in aliases.values() else name)


_FORMAT_PATTERNS = tuple(
    (re.compile(rf"(?<![a-z0-9])(?:{each.pattern})(?![a-z0-9])"), each.formats) for each in NAME_TABLES.format_patterns
)
_BLOCK = re.compile(r".*(?<![a-z0-9])(i?q\d)((?:-[a-z0-9]+)*)$")  # the last one


def formats_in_name(name: str) -> tuple[str, ...]:
    """Returns the weight formats that a model's name states, or an empty tuple.

    Check: "TheBloke/Llama-2-70B-AWQ" states int4-awq, "llama3.1:70b-instruct-q4_K_M" states gguf-q4_k_m.
    """
    key = fold_name(name).replace(":", "-")
    stated = quantization_in_name(name)
    if "bits" in stated and "quant_method" not in stated:
        return ("int8-mlx" if stated["bits"] == 8 and "experts" not in stated else "int4-mlx",)
    block = _BLOCK.search(key.removesuffix("-gguf"))
    if block is not None:
        same_block = [f for f in WEIGHT_FORMATS if f.startswith(f"gguf-{block[1]}")]
        whole = f"gguf-{block[1]}{block[2].replace('-', '_')}"
        return (whole,) if whole in WEIGHT_FORMATS else tuple(same_block)
    return next((formats for pattern, formats in _FORMAT_PATTERNS if pattern.search(key)), ())


_BITS = re.compile(r"(?<![a-z0-9.])(\d)-?bits?(?:-gs(\d+))?(?![a-z0-9])|(?<![a-z0-9])q([2-8])(?![a-z0-9])")
_EXL_BITS = re.compile(r"(?<![a-z0-9.])(\d(?:\.\d+)?)-?bpw(?![a-z0-9])")
_MLX_ONLY_BITS = (2, 3, 5, 6)  # widths that only MLX conversions are named by
MXFP4 = MappingProxyType({"bits": 4, "group_size": 32, "mode": "mxfp4"})


def quantization_in_name(name: str) -> Mapping[str, Any]:
    """Returns the quantization that a model's name states, as its configuration would write it; empty if a format says
    all, or the name says none.

    MLX conversions are named by the bits of every matrix, or by MXFP4 ("mxfp4-q8": MXFP4 for experts alone).
    Source: ml-explore/mlx-lm, convert.py; sizes of exo-explore/exo, resources/inference_model_cards, 2026-11-27.

    Check:
        >>> dict(quantization_in_name("mlx-community/Qwen3-30B-A3B-6bit"))
        {'bits': 6, 'group_size': 64}
        >>> dict(quantization_in_name("ISTA-DASLab/Llama-2-7b-AQLM-2Bit-1x16-hf"))
        {'quant_method': 'aqlm', 'bits': 2}
        >>> dict(quantization_in_name("meta-llama/Llama-3.1-8B")), dict(quantization_in_name("Qwen3-32B-AWQ-4bit"))
        ({}, {})
    """
    key = fold_name(name).replace(":", "-")
    words, found = key.split("-"), _BITS.search(key)
    bits = 0 if found is None else int(found[1] or found[3])
    method = next((word for word in words if word in NAME_TABLES.named_methods), None)
    if method is not None:
        width = _EXL_BITS.search(key)
        return {"quant_method": method} | ({"bits": float(width[1]) if width else bits} if width or bits else {})
    if "mxfp4-q8" in key:
        return {"bits": 8, "group_size": 64, "experts": MXFP4}
    if "mlx" in words and "mxfp4" in words:
        return MXFP4
    if found is None or not ("mlx" in words or (found[1] and bits in _MLX_ONLY_BITS)) or {*words} & _OTHER_TOOLS:
        return {}
    return {"bits": bits, "group_size": int(found[2] or 64)}


_OTHER_TOOLS = frozenset(("awq", "gptq", "bnb", "gguf", "autoround"))


def squash_name(name: str) -> str:
    """Returns a folded name without separators: "llama 3.1 8b", "llama3.1-8b" and "llama-3.1:8b" become equal."""
    return re.sub(r"[-:]", "", fold_name(name))


_BEDROCK = re.compile(r"(?:[a-z]{2,6}\.)?([a-z0-9]+)\.([a-z0-9][a-z0-9.-]*?)-(?:v?1:0|v0:(\d))")
_HYPHENATED = re.compile(r"(?<!\d)(\d)-(\d)(?=-)")  # the version in "llama3-1-8b" and "jamba-1-5-large"
_POINTED = re.compile(r"(?<=\d)p(?=\d)")  # that of "qwen2p5" and "v3p1"
_VARIANT = re.compile(r":(?:free|nitro|floor|extended|exacto|online|beta)$")


def strip_gateway(name: str) -> str:
    """Returns a model's name without what hosting gateways add to it: the account of Fireworks, the region, vendor and
    version of Amazon Bedrock, the variant of OpenRouter.

    Check:
        >>> strip_gateway("accounts/fireworks/models/llama-v3p1-8b-instruct")
        'llama-v3.1-8b-instruct'
        >>> strip_gateway("us.meta.llama3-3-70b-instruct-v1:0"), strip_gateway("mistral.mistral-7b-instruct-v0:2")
        ('llama3.3-70b-instruct', 'mistral-7b-instruct-v0.2')
        >>> strip_gateway("deepseek/deepseek-r1-0528:free"), strip_gateway("deepseek.r1-v1:0")
        ('deepseek/deepseek-r1-0528', 'deepseek-r1')
    """
    if name.startswith("accounts/"):
        return _POINTED.sub(".", name.rsplit("/", 1)[-1])
    hosted = _BEDROCK.fullmatch(name)
    if hosted is None:
        return _VARIANT.sub("", name)
    vendor, own, minor = hosted.groups()
    bare = _HYPHENATED.sub(r"\1.\2", own) + (f"-v0.{minor}" if minor else "")
    return bare if "-" in bare else f"{vendor}-{bare}"


def strip_file_suffix(name: str) -> str:
    """Returns a folded name without the suffixes of a quantized file or its container.

    Check: "llama3.1:70b-instruct-q4_K_M" becomes "llama3.1:70b-instruct", "Qwen-1_8B-AWQ" becomes "qwen-1.8b".
    """
    key, before = fold_name(_DECIMAL.sub(r"\1.\2", name.lower())), ""
    while key != before:
        before, key = key, _FILE_SUFFIX.sub("", key).strip("-:")
    return key


_WORDS = re.compile(r"\d+(?:\.\d+)?[a-z]*|[a-z]+")


def split_name_words(name: str) -> frozenset[str]:
    """Returns the words of a name; letters are split from the numbers that follow: "qwen2.5" is qwen and 2.5."""
    return frozenset(_WORDS.findall(fold_name(name)))


_PACKAGING = re.compile(rf"(?:^|(?<=-))(?:{'|'.join(NAME_TABLES.packaging)})(?=-|$)")
_STAGE_WORDS = frozenset(NAME_TABLES.stage_words)
_NETWORK_WORDS = frozenset(NAME_TABLES.network_words)
_NEUTRAL_WORDS = frozenset(  # of the same weights
    {"hf", "meta", "latest", "unsloth", "community", "billion", "bn", "model", "turbo"}
)
_SIZE_WORD = re.compile(r"\d+(?:\.\d+)?[bm]")
_LLAMA = re.compile(r"(?<![a-z0-9])l(?=[23](?:\.\d)?-)")  # "L2-13B" and "L3.3-70B" of fine-tuned models
_UNDERSCORED = re.compile(r"(?<![qQ\d])(\d+)_(\d+)(?!\d)")  # a decimal point of a version: "3_3" of Nemotron
_VERSION = re.compile(r"\d(?:\.\d+)?")
_DATE = re.compile(r"(?:20)?2\d(?:0[1-9]|1[0-2])(?:\d\d)?|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|20\d{6}")


def own_tokens(name: str) -> list[str]:
    """Returns the words of a model's own name, in order: without account, format and file."""
    own = _UNDERSCORED.sub(r"\1.\2", name.rsplit("/", 1)[-1].replace(":", "-"))
    key = fold_name(re.sub(r"\.(?=[a-zA-Z])", "-", own))
    return _WORDS.findall(_LLAMA.sub("llama-", re.sub(r"(?<![a-z0-9])v(?=\d)", "", _PACKAGING.sub("", key))))


def shape_tokens(name: str) -> tuple[str, ...]:
    """Returns the words of a model's name that tell its shape, in order: without account, stage of training, format
    and file.

    Check: "mistralai/Mistral-7B-Instruct-v0.1" and "Mistral-7B-v0.1-AWQ" have the same words.
    """
    return tuple(word for word in own_tokens(name) if word not in _STAGE_WORDS)


def states_other_weights(name: str, chosen: str) -> bool:
    """Returns whether a model's name has a word, such as that of a fine-tuned model or a stage of training, that the
    name of the chosen model lacks. Sizes, formats and accounts do not count.

    Check:
        >>> states_other_weights("Qwen3-235B-A22B-Thinking-2507", "Qwen/Qwen3-235B-A22B-Instruct-2507")
        True
        >>> states_other_weights("together/Llama-3.3-70B-Instruct-Turbo", "meta-llama/Llama-3.3-70B-Instruct")
        False
    """
    words = own_tokens(strip_gateway(name))
    weighty = (word for word in words if word not in _NEUTRAL_WORDS and not _SIZE_WORD.fullmatch(word))
    return any(word not in "".join(own_tokens(chosen)) for word in weighty)


def shape_words(name: str, *, with_dates: bool = True) -> frozenset[str]:
    """Returns the words of a model's name that tell its shape, in no order. Dates can be left out."""
    words = frozenset(shape_tokens(name))
    return words if with_dates else frozenset(word for word in words if not _DATE.fullmatch(word))


def split_size(words: frozenset[str]) -> tuple[frozenset[str], float]:
    """Returns the words of a model's name without its only size, and that size in parameters; 0 without one size.

    Check: the words of "deepseek-v2.5:236b" are deepseek, 2.5 and 236b.
        >>> sorted(split_size(shape_words("deepseek-v2.5:236b"))[0]), split_size(shape_words("deepseek-v2.5:236b"))[1]
        (['2.5', 'deepseek'], 236000000000.0)
    """
    sizes = [word for word in words if _SIZE_WORD.fullmatch(word)]
    if len(sizes) != 1:
        return words, 0.0
    return words - {*sizes}, float(sizes[0][:-1]) * (1e9 if sizes[0].endswith("b") else 1e6)


def is_tuned_name(name: tuple[str, ...], base: tuple[str, ...]) -> bool:
    """Returns whether a name with these words is that of a fine-tuned base model: it contains the words of the base in
    a row, with its only size, and none that makes another network. A version at the end of the base may be missing
    or another one, and words may stand between the version and the size of the base.

    Check:
        >>> is_tuned_name(shape_tokens("Hermes-3-Llama-3.1-8B"), shape_tokens("Llama-3.1-8B"))
        True
        >>> is_tuned_name(shape_tokens("dolphin-2.5-mixtral-8x7b"), shape_tokens("Mixtral-8x7B-v0.1"))
        True
        >>> is_tuned_name(shape_tokens("Llama-3.3-Swallow-70B-v0.4"), shape_tokens("Llama-3.3-70B"))
        True
        >>> is_tuned_name(shape_tokens("Qwen2-Audio-7B"), shape_tokens("Qwen2-7B"))
        False
        >>> is_tuned_name(shape_tokens("Llama-3.1-405B (proxy, 7 layers)"), shape_tokens("Llama-3.1-405B"))
        False
    """
    sized = {word for word in name if _SIZE_WORD.fullmatch(word)}
    if len(base) > 2 and _SIZE_WORD.fullmatch(base[-2]) and _VERSION.fullmatch(base[-1]) and base[-1] not in name:
        base = base[:-1]
    if not sized or not sized <= {*base} or len(base) >= len(name) or ({*name} - {*base}) & _NETWORK_WORDS:
        return False
    if len(base) == 3 and _VERSION.fullmatch(base[1]) and name[:2] == base[:2]:
        return base[2] in name[2:]
    return any(name[i : i + len(base)] == base for i in range(len(name) - len(base) + 1))


def models_containing(name: str, names: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the models (second) with a name (first) that contains every word of the text, shortest name first."""
    typed = split_name_words(name)
    if not any(len(w) >= 3 and w.isalpha() for w in typed):
        return []
    lengths: dict[str, int] = {}
    for known, model in names:
        if typed <= split_name_words(known):
            lengths[model] = min(len(known), lengths.get(model, len(known)))
    return sorted(lengths, key=lambda m: (lengths[m], m))


def most_similar(typed: str, names: Iterable[str], limit: int, least: float = MIN_SIMILARITY) -> list[str]:
    """Returns the names most similar to the text, best first. Compares whole names and their beginnings.

    Parameters:
        least: similarity from which a name is returned, at least MIN_SIMILARITY.

    Check:
        >>> most_similar("h1000", ["a10", "a100-pcie", "h100-sxm5", "gh200"], 2)
        ['h100-sxm5', 'gh200']
    """
    matcher, ranked = difflib.SequenceMatcher(b=typed), []
    for name in names if typed else ():
        alike = max(
            name_similarity(matcher, name),
            *(PREFIX_WEIGHT * name_similarity(matcher, name[: len(typed) + more]) for more in (0, 1)),
        )
        if alike >= least:
            ranked.append((-alike, len(name), name))
    return [name for *_, name in sorted(ranked)[:limit]]


def name_similarity(matcher: difflib.SequenceMatcher[str], name: str) -> float:
    """Returns the similarity of two names from MIN_SIMILARITY to 1, or 0 below that."""
    matcher.set_seq1(name)
    if matcher.real_quick_ratio() < MIN_SIMILARITY or matcher.quick_ratio() < MIN_SIMILARITY:
        return 0.0
    alike = matcher.ratio()
    return alike if alike >= MIN_SIMILARITY else 0.0


# Numbers as people say them in a model's name: "llama 3 seventy" is a 70B model.
SPOKEN_SIZES: Mapping[str, str] = MappingProxyType(
    {"one": "1b", "two": "2b", "three": "3b", "four": "4b", "seven": "7b", "eight": "8b", "nine": "9b", "twelve": "12b"}
    | {"thirteen": "13b", "fourteen": "14b", "thirty": "30b", "seventy": "70b"}
)
MODEL_SIMILARITY = 0.65  # similarity from which a model is suggested: model names are long, and most share letters


def nearest_models(name: str, aliases: Iterable[tuple[str, str]], *, limit: int = 5) -> list[str]:
    """Returns the model names most similar to a name, best first, one name for each model.

    Check:
        >>> known = [("llama-3-70b", "a"), ("llama-3-8b", "b"), ("openchat-3.5", "c")]
        >>> nearest_models("lama 3 seventy", known, limit=1), nearest_models("nonsuch", known)
        (['llama-3-70b'], [])
    """
    words = [SPOKEN_SIZES.get(word, word) for word in re.split(r"[\s_-]+", fold_name(name)[:120])]
    typed, found = "-".join(words), dict[str, str]()
    models = {fold_name(alias): (alias, model) for alias, model in aliases}
    matcher = difflib.SequenceMatcher(b=typed)
    for folded in most_similar(typed, models, 4 * limit):
        alias, model = models[folded]
        near = max(name_similarity(matcher, folded), name_similarity(matcher, folded[: len(typed)]))
        if near >= MODEL_SIMILARITY:
            found.setdefault(model, alias)
    return [*found.values()][:limit]


def countries_named(key: str) -> frozenset[str]:
    """Returns the ISO codes of a country or area. `key` is its name in lower case without separators; unknown names
    give none.

    Check: "eu" contains DE and FR; "uk" is GB; "us" is US.
    """
    if key in NAME_TABLES.areas:
        return frozenset(NAME_TABLES.areas[key].split())
    return frozenset(
        code for code, names in NAME_TABLES.countries.items() if key == code.lower() or key in names.split()
    )
