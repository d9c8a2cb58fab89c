"""Patterns of module names, as quantization configurations write them, matched to the counted matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import factorial

from app.errors import UnreadableConfiguration
from app.sizing.model.modules import MODULE_NAMES
from app.sizing.model.tensors import ONCE, Part, Tensor

MAX_PATTERNS = 100_000  # published files list up to 40,000 modules
MAX_PATTERN_CHARS = 4096
MAX_STEPS = 1e9  # steps of matching at worst; a few seconds
NAME_CHARS = 64  # length of a module name
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer)(?:\.(\d+))(?:\.(.*))?$")
_LITERAL_LAYER = re.compile(r"(?:layers|h|blocks)\\?\.(\d+)(?=\\?\.|\$|$)")
# Modules of towers and prediction layers, which are counted apart from the layers.
_APART = re.compile(r"vision|visual|\bvit\b|audio|image|\bmtp\b|encoder\.layers|sam_model|mm_projector|vae")
_PREFIXES = (
    "model.layers.{}.",
    "model.language_model.layers.{}.",
    "language_model.model.layers.{}.",
    "backbone.layers.{}.",
    "layers.{}.",
)
_OUTSIDE = {
    Part.HEAD: ("lm_head", "model.lm_head", "language_model.lm_head", "output", "head"),
    Part.EMBEDDING: ("model.embed_tokens", "embed_tokens", "model.language_model.embed_tokens", "backbone.embeddings"),
}
_REPEATS = re.compile(r"(?<!\\)[*+]|\{\d+,\}")
_NESTED = re.compile(r"\([^()]*(?<!\\)[*+][^()]*\)(?:[*+]|\{)")


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One pattern: the index of its rule, the layer that it names if it names one, and its parts."""

    index: int
    layer: int | None
    literal: str  # rest of a literal name behind its layer, between dots; empty for the others
    regex: re.Pattern[str] | None
    by_layer: bool  # whether it must be matched layer by layer


class ModulePatterns:
    """Patterns in the order of their rules; the first that matches a module counts."""

    def __init__(self, patterns: Sequence[str]) -> None:
        if len(patterns) > MAX_PATTERNS:
            raise UnreadableConfiguration(
                f"The quantization names {len(patterns):,} modules. At most {MAX_PATTERNS:,} can be read.",
                key="quantization_config",
            )
        self.steps = 0.0
        self.everywhere: list[_Pattern] = []
        self.by_layer: dict[int, list[_Pattern]] = {}
        for index, text in enumerate(patterns):
            pattern = _compile(index, text)
            if pattern is None:
                continue
            if pattern.layer is None:
                self.everywhere.append(pattern)
            else:
                self.by_layer.setdefault(pattern.layer, []).append(pattern)

    def count_layers(self, tensor: Tensor, *, besides_mlp: bool = False) -> dict[int | None, int]:
        """The number of a tensor's layers by the index of the first pattern that matches; None where none does.

        `besides_mlp` says that the layers of these experts have a dense MLP too, so that "mlp" does not name experts.
        """
        counts: dict[int | None, int] = {}
        fixed = [p for p in self.everywhere if not p.by_layer]
        varying = [p for p in self.everywhere if p.by_layer]
        names = _relative_names(tensor.part, tensor.role, besides_mlp)
        always = self._first(fixed, names, tensor.layers[0], None)
        for layer in tensor.layers:
            own = [p for p in (*self.by_layer.get(layer, ()), *varying) if always is None or p.index < always]
            found = self._first(sorted(own, key=lambda p: p.index), names, layer, always) if own else always
            counts[found] = counts.get(found, 0) + 1
        return counts

    def _first(
        self, patterns: Sequence[_Pattern], names: tuple[str, ...], layer: int, default: int | None
    ) -> int | None:
        """The index of the first pattern that matches one of the names of a matrix behind its layer."""
        for pattern in patterns:
            if pattern.regex is not None:
                found = self._search(pattern.regex, _full_names(names, layer))
            elif pattern.layer is not None:
                found = any(name.startswith(pattern.literal) for name in names)
            else:
                found = any(pattern.literal in name for name in names)
            if found:
                return pattern.index
        return default

    def _search(self, regex: re.Pattern[str], names: str) -> bool:
        repeats = len(_REPEATS.findall(regex.pattern))
        self.steps += names.count("\n") * NAME_CHARS**repeats / factorial(repeats)
        if self.steps > MAX_STEPS:
            raise UnreadableConfiguration(
                "The patterns of the quantization are too complex to match. Name modules with fewer wildcards.",
                key="quantization_config",
            )
        return regex.search(names) is not None


def _compile(index: int, text: str) -> _Pattern | None:
    """A pattern, or None if it names a module that is counted apart from the layers."""
    if _APART.search(text):
        return None
    if text.startswith("re:"):
        return _compile_regex(index, text[3:], text)
    bare = text.strip("*")
    if "*" in bare or "?" in bare or re.search(r"\.\d+\*$", text):
        plain = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in re.sub(r"\*+", "*", text))
        return _compile_regex(index, rf"(?:.*\.)?{plain}(?:\..*)?$", text)
    before, after = "" if text.startswith("*") else ".", "" if text.endswith("*") else "."
    match = _LAYER.search(bare)
    if match is None:
        return _Pattern(index, None, before + bare.strip(".") + after, None, by_layer=False)
    rest = match[2] or ""
    return _Pattern(index, int(match[1]), f".{rest}{after}" if rest else ".", None, by_layer=False)


def _compile_regex(index: int, regex: str, text: str) -> _Pattern:
    if len(regex) > MAX_PATTERN_CHARS or _NESTED.search(regex):
        raise UnreadableConfiguration(
            f"The quantization has a pattern that is too long or repeats a repetition: {text[:60]!r}.",
            key="quantization_config",
        )
    try:
        compiled = re.compile(rf"^(?:{regex})", re.MULTILINE)
    except re.error as error:
        raise UnreadableConfiguration(
            f"The quantization has an invalid pattern {text[:60]!r}: {error}.", key="quantization_config"
        ) from error
    layers = _LITERAL_LAYER.findall(regex)
    single = int(layers[0]) if len(layers) == 1 and "|" not in regex else None
    return _Pattern(index, single, "", compiled, by_layer=single is None and bool(re.search(r"\d", regex)))


@lru_cache(maxsize=4096)
def _relative_names(part: Part, role: str, besides_mlp: bool) -> tuple[str, ...]:
    """Names of a matrix behind its layer, between dots."""
    if part in _OUTSIDE and role in ("lm_head", "embed_tokens"):
        return tuple(f".{name}." for name in _OUTSIDE[part])
    bare = role.removeprefix("experts.").removeprefix("shared_expert.")
    spellings = (bare, *MODULE_NAMES.roles.get(bare, ()))
    prefixes = MODULE_NAMES.parts.get(part.value, ("",))
    if besides_mlp:
        prefixes = tuple(prefix for prefix in prefixes if not prefix.startswith("mlp."))
    return tuple(dict.fromkeys(f".{prefix}{name}." for prefix in prefixes for name in spellings))


@lru_cache(maxsize=8192)
def _full_names(relative: tuple[str, ...], layer: int) -> str:
    """Full names of a matrix, one per line."""
    names = [name.strip(".") for name in relative]
    if layer != ONCE[0]:
        names = [prefix.format(layer) + name for prefix in _PREFIXES for name in names]
    return "\n".join(names) + "\n"
