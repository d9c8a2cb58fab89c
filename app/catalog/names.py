"""Names as people type them: normalization, model families, countries and areas, spellings of hardware and providers.

Device names of drivers were read from vllm-project/vllm@50feac9 (tuning files are named by device), ROCm/vllm pull
request 359 (market and product names of amd-smi) and nvidia-smi listings in issues, November 2026.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from app.sizing.hardware.engines import ALIASES
from app.sizing.model.formats import WEIGHT_FORMATS

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
    r"[-:](?:latest|gguf|awq|gptq|exl2|mlx|(?:w\d+a\d+)|(?:bnb-)?(?:[348]-?bit)|fp8(?:-dynamic)?|int[48]|nvfp4|mxfp4|fp16|bf16|f16|i?q\d(?:[-_][a-z0-9]+)*)$"
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


# Weight formats as people write them, folded, if the spelling differs from the catalog's.
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
    """Returns the catalog's name of a weight format; an unknown name is only converted to lower case.

    Check: "AWQ" is int4-awq, "Q4_K_M" and "gguf q4_k_m" are gguf-q4_k_m, "BF16" is bf16.
    """
    key = fold_name(name)
    block = re.fullmatch(r"(?:gguf-)?((?:i?q\d|f16)(?:-[a-z0-9]+)*)", key)
    if block is not None and (block_format := "gguf-" + block[1].replace("-", "_")) in WEIGHT_FORMATS:
        return block_format
    return _FORMATS.get(key, key if key in WEIGHT_FORMATS else name.strip().lower())


# Patterns in folded model names that state the weight format, with the formats they may mean; the first match counts.
_FORMAT_PATTERNS = tuple(
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


def formats_in_name(name: str) -> tuple[str, ...]:
    """Returns the weight formats that a model's name states, or an empty tuple.

    Check: "TheBloke/Llama-2-70B-AWQ" states int4-awq, "llama3.1:70b-instruct-q4_K_M" states gguf-q4_k_m.
    """
    key = fold_name(name).replace(":", "-")
    block = _BLOCK.search(key.removesuffix("-gguf"))
    if block is not None:
        same_block = [f for f in WEIGHT_FORMATS if f.startswith(f"gguf-{block[1]}")]
        whole = f"gguf-{block[1]}{block[2].replace('-', '_')}"
        return (whole,) if whole in WEIGHT_FORMATS else tuple(same_block)
    return next((formats for pattern, formats in _FORMAT_PATTERNS if pattern.search(key)), ())


def squash_name(name: str) -> str:
    """Returns a folded name without separators: "llama 3.1 8b", "llama3.1-8b" and "llama-3.1:8b" become equal."""
    return re.sub(r"[-:]", "", fold_name(name))


def strip_file_suffix(name: str) -> str:
    """Returns a folded name without the suffixes of a quantized file or its container.

    Check: "llama3.1:70b-instruct-q4_K_M" becomes "llama3.1:70b-instruct".
    """
    key, before = fold_name(name), ""
    while key != before:
        before, key = key, _FILE_SUFFIX.sub("", key).strip("-:")
    return key


def split_name_words(name: str) -> frozenset[str]:
    """Returns the words of a name; letters are split from the numbers that follow: "qwen2.5" is qwen and 2.5."""
    return frozenset(re.findall(r"\d+(?:\.\d+)?[a-z]*|[a-z]+", fold_name(name)))


def models_containing(name: str, names: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the models (second item) with a name (first item) that contains every word of the text, shortest name
    first.
    """
    typed = split_name_words(_DECIMAL.sub(r"\1.\2", name.lower()))
    if not any(len(w) >= 3 and w.isalpha() for w in typed):
        return []
    lengths: dict[str, int] = {}
    for known, model in names:
        if typed <= split_name_words(known):
            lengths[model] = min(len(known), lengths.get(model, len(known)))
    return sorted(lengths, key=lambda m: (lengths[m], m))


def most_similar(typed: str, names: Iterable[str], limit: int) -> list[str]:
    """Returns the names most similar to the text, best first. Compares whole names and their beginnings.

    Check:
        >>> most_similar("h1000", ["a10", "a100-pcie", "h100-sxm5", "gh200"], 2)
        ['h100-sxm5', 'a10']
    """
    matcher, ranked = difflib.SequenceMatcher(b=typed), []
    for name in names if typed else ():
        alike = max(
            name_similarity(matcher, name),
            *(PREFIX_WEIGHT * name_similarity(matcher, name[: len(typed) + more]) for more in (0, 1)),
        )
        if alike:
            ranked.append((-alike, len(name), name))
    return [name for *_, name in sorted(ranked)[:limit]]


def name_similarity(matcher: difflib.SequenceMatcher[str], name: str) -> float:
    """Returns the similarity of two names from MIN_SIMILARITY to 1, or 0 below that."""
    matcher.set_seq1(name)
    if matcher.real_quick_ratio() < MIN_SIMILARITY or matcher.quick_ratio() < MIN_SIMILARITY:
        return 0.0
    alike = matcher.ratio()
    return alike if alike >= MIN_SIMILARITY else 0.0


def nearest_names(name: str, names: Iterable[str], *, limit: int = 5) -> list[str]:
    """Returns the names most similar to a name, best first."""
    known = {fold_name(n): n for n in names}
    return [known[n] for n in most_similar(fold_name(name)[:120], known, limit)]


# ISO 3166 codes of countries and their names, in lower case without separators.
COUNTRIES: Mapping[str, str] = MappingProxyType(
    {
        "AE": "uae unitedarabemirates",
        "AT": "austria",
        "AU": "australia",
        "BE": "belgium",
        "BH": "bahrain",
        "BR": "brazil",
        "CA": "canada",
        "CH": "switzerland",
        "CZ": "czechia",
        "DE": "germany deutschland",
        "DK": "denmark",
        "ES": "spain",
        "FI": "finland",
        "FR": "france",
        "GB": "uk unitedkingdom greatbritain england britain",
        "HK": "hongkong",
        "ID": "indonesia",
        "IE": "ireland",
        "IL": "israel",
        "IN": "india",
        "IS": "iceland",
        "IT": "italy",
        "JP": "japan",
        "KR": "korea southkorea",
        "MX": "mexico",
        "MY": "malaysia",
        "NL": "netherlands holland",
        "NO": "norway",
        "NZ": "newzealand",
        "PL": "poland",
        "PT": "portugal",
        "QA": "qatar",
        "RO": "romania",
        "SA": "saudiarabia",
        "SE": "sweden",
        "SG": "singapore",
        "TW": "taiwan",
        "US": "usa unitedstates america unitedstatesofamerica",
        "ZA": "southafrica",
    }
)
# Members of the European Union with data centers that rent out machines, or may.
EU = "AT BE CZ DE DK ES FI FR IE IT NL PL PT RO SE"
AREAS: Mapping[str, str] = MappingProxyType(
    {
        "eu": EU,
        "europeanunion": EU,
        "europe": f"{EU} CH GB IS NO",
        "northamerica": "CA MX US",
        "apac": "AU HK ID IN JP KR MY NZ SG TW",
        "asia": "HK ID IN JP KR MY SG TW",
        "middleeast": "AE BH IL QA SA",
    }
)


def countries_named(key: str) -> frozenset[str]:
    """Returns the ISO codes of a country or area. `key` is its name in lower case without separators; unknown names
    give none.

    Check: "eu" contains DE and FR; "uk" is GB; "us" is US.
    """
    if key in AREAS:
        return frozenset(AREAS[key].split())
    return frozenset(code for code, names in COUNTRIES.items() if key == code.lower() or key in names.split())


# Words that do not distinguish accelerators.
NOISE_WORDS: frozenset[str] = frozenset(
    word
    for line in (
        "gpu gpus card cards accelerator chip edition tensor core graphics corporation corp inc generation processor",
        "device w with podslice slice of advanced micro devices ati series",
    )
    for word in line.split()
)
# Words that make a different model, by vendor. A model with such a word matches only names that contain it.
MODIFIERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"nvidia": frozenset(("ti", "super")), "apple": frozenset(("pro", "max", "ultra"))}
)
# Generic words for every accelerator of a vendor.
VENDOR_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "nvidia": "nvidia",
        "amd": "amd",
        "intel": "intel",
        "google": "google cloud tpu",
        "aws": "aws amazon",
        "apple": "apple silicon macbook mac mini studio",
        "huawei": "huawei ascend atlas npu",
        "qualcomm": "qualcomm cloud ai 100",
    }
)
# Slug prefixes, and additional words for the accelerators with that prefix.
EXTRA_WORDS: tuple[tuple[str, str], ...] = (
    ("nvidia-p4", "tesla"),
    ("nvidia-p100", "tesla hbm2"),
    ("nvidia-v100", "tesla volta hbm2"),
    ("nvidia-v100-sxm2-32gb", "sxm3"),
    ("nvidia-t4", "tesla"),
    ("nvidia-a100", "ampere hgx tesla"),
    ("nvidia-a100-sxm4-40gb", "hbm2"),
    ("nvidia-a100-sxm4-80gb", "hbm2e"),
    ("nvidia-a100-pcie-80gb", "hbm2e"),
    ("nvidia-h100", "hopper"),
    ("nvidia-h100-sxm5-80gb", "hbm3 hgx"),
    ("nvidia-h100-pcie-80gb", "hbm2e"),
    ("nvidia-h100-nvl-94gb", "hbm3"),
    ("nvidia-h200", "hopper hbm3e"),
    ("nvidia-h200-sxm-141gb", "sxm5 hgx"),
    ("nvidia-h20-", "hopper hbm3"),
    ("nvidia-gh200", "grace hopper superchip"),
    ("nvidia-gh200-96gb", "hbm3 480gb"),
    ("nvidia-gh200-144gb", "hbm3e"),
    ("nvidia-l4", "ada lovelace"),
    ("nvidia-b100", "blackwell 192gb hbm3e"),
    ("nvidia-b200", "blackwell 183gb 192gb hbm3e sxm6 hgx"),
    ("nvidia-b300", "blackwell ultra 288gb hbm3e sxm6 ac hgx"),
    ("nvidia-gb200", "grace blackwell superchip 192gb hbm3e sxm6"),
    ("nvidia-gb300", "grace blackwell ultra superchip 288gb hbm3e sxm6"),
    ("nvidia-rubin", "vera 288gb hbm4"),
    ("nvidia-quadro-rtx", "turing"),
    ("nvidia-rtx-2", "geforce"),
    ("nvidia-rtx-3", "geforce"),
    ("nvidia-rtx-4", "geforce"),
    ("nvidia-rtx-5", "geforce"),
    ("nvidia-rtx-a", "quadro ampere"),
    ("nvidia-rtx-pro-6000-blackwell-ws", "workstation 6000pro"),
    ("nvidia-rtx-pro-6000-blackwell-maxq", "workstation max q 6000pro"),
    ("nvidia-rtx-pro-6000-blackwell-server", "se bse 6000pro"),
    ("nvidia-jetson-orin", "super developer kit"),
    ("nvidia-jetson-agx", "developer kit"),
    ("nvidia-jetson-thor", "agx developer kit"),
    ("nvidia-gb10", "grace blackwell superchip 128gb"),
    ("nvidia-grace-cpu", "superchip"),
    ("amd-mi", "instinct arcturus gl xl hbm"),
    ("amd-mi300a", "mi300 apu"),
    ("amd-mi300x", "mi300"),
    ("amd-mi325x", "mi325"),
    ("amd-mi350", "mi350"),
    ("amd-mi355x", "mi355"),
    ("amd-mi455x", "mi455"),
    ("amd-r", "radeon navi"),
    ("amd-ryzen-ai-max-395", "strix halo radeon 8060s gfx1151 plus 128gb"),
    ("intel-gaudi", "habana labs gaudi hpu oam"),
    ("intel-gaudi-hl205", "hl205"),
    ("intel-gaudi2", "hl225"),
    ("intel-gaudi3", "hl325 hl325l"),
    ("intel-max-1550", "data center ponte vecchio pvc"),
    ("intel-xeon", "amx"),
    ("intel-xeon-8480plus", "8480 plus sapphire rapids spr"),
    ("intel-xeon-6980p", "granite rapids gnr 6"),
    ("amd-epyc-9654", "genoa"),
    ("amd-epyc-9754", "bergamo"),
    ("amd-epyc-9965", "turin"),
    ("google-tpu-v5e", "v5 lite"),
    ("google-tpu-v5p", "v5"),
    ("google-tpu-v6e", "v6 trillium"),
    ("google-tpu-v7", "v7x 7x ironwood"),
    ("aws-inferentia", "inferentia"),
    ("aws-inferentia1", "inf1"),
    ("aws-inferentia2", "inf2"),
    ("aws-trainium", "trainium"),
    ("aws-trainium1", "trn1"),
    ("aws-trainium2", "trn2"),
    ("aws-trainium3", "trn3"),
    ("aws-graviton", "graviton"),
    ("huawei-ascend-910b", "910b"),
    ("huawei-ascend-310p", "310p"),
    ("cerebras", "wse cs3"),
    ("groq", "groqcard"),
    ("sambanova", "rdu"),
    ("microsoft-maia", "azure"),
)
# Complete names with one meaning, although their words match several accelerators: device names and common short names.
TITLES: Mapping[str, str] = MappingProxyType(
    {
        "NVIDIA H200": "nvidia-h200-sxm-141gb",  # the NVL card prints as "NVIDIA H200 NVL"
        "H200": "nvidia-h200-sxm-141gb",
        "H200 141GB": "nvidia-h200-sxm-141gb",
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "nvidia-rtx-pro-6000-blackwell-ws",
        "RTX PRO 6000 Workstation": "nvidia-rtx-pro-6000-blackwell-ws",
        "RTX PRO 6000 Blackwell Workstation": "nvidia-rtx-pro-6000-blackwell-ws",
        "AMD Instinct MI350 OAM": "amd-mi350x",
        "Grace Hopper": "nvidia-gh200-96gb",
        "Spark": "nvidia-gb10-dgx-spark",
    }
)
# Replacements in compacted names.
RESPELLINGS: tuple[tuple[str, str], ...] = (
    ("v5litepod", "v5e"),
    ("v5lite", "v5e"),
    ("macbookpro", "macbook"),
    ("macbookair", "macbook"),
    ("macpro", "mac"),
)
# Aliases of providers, in lower case without separators.
PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "amazon": "aws",
        "amazonwebservices": "aws",
        "ec2": "aws",
        "sagemaker": "aws-sagemaker",
        "amazonsagemaker": "aws-sagemaker",
        "google": "gcp",
        "googlecloud": "gcp",
        "googlecloudplatform": "gcp",
        "gce": "gcp",
        "microsoft": "azure",
        "microsoftazure": "azure",
        "oracle": "oci",
        "oraclecloud": "oci",
        "oraclecloudinfrastructure": "oci",
        "lambdalabs": "lambda",
        "lambdacloud": "lambda",
        "vastai": "vast",
        "ovhcloud": "ovh",
        "togetherai": "together",
        "fireworksai": "fireworks",
        "runpodio": "runpod",
        "falai": "fal",
        "datacrunch": "verda",
        "primeintellectai": "primeintellect",
    }
)
VENDORS: Mapping[str, str] = MappingProxyType(
    {
        "nvidiacorporation": "nvidia",
        "advancedmicrodevices": "amd",
        "habana": "intel",
        "habanalabs": "intel",
        "amazon": "aws",
        "amazonwebservices": "aws",
        "googlecloud": "google",
        "gcp": "google",
        "azure": "microsoft",
        "amperecomputing": "ampere",
    }
)
