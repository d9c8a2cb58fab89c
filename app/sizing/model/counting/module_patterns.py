"""Patterns of module names, as quantization configurations write them, matched to the counted matrices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from math import comb
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.modules import MODULE_NAMES
from app.sizing.model.tensors import ONCE, Part, Tensor
from app.work import check_each

MAX_PATTERNS = 100_000  # published files list up to 40,000 modules
MAX_PATTERN_CHARS = 4096
# Nothing can interrupt the match of a regular expression, during which every other request of the process waits. One
# core makes up to 100 million steps a second.
MAX_NAME_STEPS = 1e7  # of a match with one name, at worst
MAX_STEPS = 3e8  # of all matches of a configuration, at worst
COMPILE_STEPS, MATCH_STEPS = 10_000, 20  # what compiling a pattern, and starting a match, cost besides
MAX_STARS = 6
NAME_CHARS = 96  # longest name of a module
SAME_CHARS = 16  # most times that one character is in a name
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer)(?:\.(\d+))(?:\.(.*))?$")
_LITERAL_LAYER = re.compile(r"(?:layers|h|blocks)\\?\.(\d+)(?=\\?\.(?![*+?{])|\$|$)")
# Modules of towers and prediction layers, which are counted apart from the layers.
_APART = re.compile(r"vision|visual|\bvit\b|audio|image|\bmtp\b|encoder\.layers|sam_model|mm_projector|vae")
_parse = import_module("re._parser").parse  # not in the type stubs of re
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_CONDITIONS = re.compile(r"\\[AbBZ1-9]|[$^(]")
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

# In how many ways a pattern can match: pairs of a number of stars and the number of alternatives with them. A star is a
# repeat of one character, of any number of them.
Ways = tuple[tuple[int, int], ...]
ONE_WAY: Ways = ((0, 1),)
ONE_STAR: Ways = ((1, 1),)
MAX_WAYS = 10**18


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One pattern: the index of its rule, the layer that it names if it names one, and its parts."""

    index: int
    layer: int | None
    literal: str  # rest of a literal name behind its layer, between dots; empty for the others
    regex: re.Pattern[str] | None
    by_layer: bool  # whether it must be matched layer by layer
    whole: bool = False  # whether a literal name is that of a matrix, not also of a module with matrices
    ways: Ways = ONE_WAY  # of matching the regular expression


class ModulePatterns:
    """Patterns in the order of their rules; the first that matches a module counts.

    "re:" starts a regular expression, and "=" the name of one matrix. Other names may be those of modules with several.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        if len(patterns) > MAX_PATTERNS:
            raise _unreadable(
                f"The quantization names {len(patterns):,} modules. At most {MAX_PATTERNS:,} can be read."
            )
        self.steps = 0.0
        self.everywhere: list[_Pattern] = []
        self.by_layer: dict[int, list[_Pattern]] = {}
        for index, text in enumerate(check_each(patterns)):
            pattern = _compile(index, text)
            if pattern is None:
                continue
            if pattern.regex is not None:
                self._charge(COMPILE_STEPS)
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
        for pattern in check_each(patterns):
            if pattern.regex is not None:
                found = self._search(pattern.regex, pattern.ways, _full_names(names, layer))
            elif pattern.whole and not pattern.literal.endswith(".experts."):  # experts may be one module
                found = pattern.literal in names
            elif pattern.layer is not None:
                found = any(name.startswith(pattern.literal) for name in names)
            else:
                found = any(pattern.literal in name for name in names)
            if found:
                return pattern.index
        return default

    def _search(self, regex: re.Pattern[str], ways: Ways, names: tuple[str, ...]) -> bool:
        self._charge(sum((MATCH_STEPS + matching_steps(ways, length)) * count for length, count in _lengths(names)))
        return any(regex.match(name) for name in names)

    def _charge(self, steps: float) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise _unreadable(f"The patterns of the quantization are too complex to match. {_SIMPLER}")


def _compile(index: int, text: str) -> _Pattern | None:
    """A pattern, or None if it names a module that is counted apart from the layers."""
    if _APART.search(text):
        return None
    if text.startswith("re:"):
        return _compile_regex(index, text[3:], text)
    whole, text = text.startswith("=") and "*" not in text, text.removeprefix("=")
    bare = text.strip("*")
    if "*" in bare or "?" in bare or re.search(r"\.\d+\*$", text):
        plain = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in re.sub(r"\*+", "*", text))
        end = "" if text.endswith("*") else r"(?:\.|$)"
        return _compile_regex(index, rf"(?:.*\.)?{plain}{end}", text)
    before, after = "" if text.startswith("*") else ".", "" if text.endswith("*") else "."
    match = _LAYER.search(bare)
    if match is None:
        return _Pattern(index, None, before + bare.strip(".") + after, None, by_layer=False, whole=whole)
    rest = match[2] or ""
    return _Pattern(index, int(match[1]), f".{rest}{after}" if rest else ".", None, by_layer=False, whole=whole)


def _compile_regex(index: int, regex: str, text: str) -> _Pattern:
    if len(regex) > MAX_PATTERN_CHARS:
        raise _unreadable(f"The quantization has a pattern that is too long: {text[:60]!r}.")
    try:
        compiled, ways = re.compile(regex), count_ways(regex)
    except (re.error, OverflowError, RecursionError) as error:
        raise _unreadable(f"The quantization has an invalid pattern {text[:60]!r}: {error}.") from error
    if ways is None or matching_steps(ways, NAME_CHARS) > MAX_NAME_STEPS:
        raise _unreadable(f"The quantization has a pattern that is too complex to match: {text[:60]!r}. {_SIMPLER}")
    layers = _LITERAL_LAYER.findall(regex)
    single = int(layers[0]) if len(layers) == 1 and "|" not in regex else None
    return _Pattern(index, single, "", compiled, by_layer=single is None and bool(re.search(r"\d", regex)), ways=ways)


def _unreadable(detail: str) -> UnreadableConfiguration:
    return UnreadableConfiguration(detail, key="quantization_config")


_SIMPLER = "Name modules with fewer wildcards."


class _TooComplex(Exception):
    """A pattern may take more steps than any limit allows."""


@lru_cache(maxsize=8192)
def matching_steps(ways: Ways, characters: int) -> int:
    """Worst number of choices in which backtracking decides whether a pattern matches a name.

    Parameters: the ways of the pattern; length of the name in characters.
    Source: k stars in a row end at k positions in order, one of C(n + k, k) choices in a name of n characters; all are
    tried if none matches.
    Check: two stars in a name of 64 characters, C(66, 2).
        >>> matching_steps(((2, 1),), 64)
        2145
    """
    return sum(count * comb(characters + stars, stars) for stars, count in ways)


def count_ways(regex: str) -> Ways | None:
    """The ways in which a pattern that compiles can match: alternatives add, and parts in a row multiply.

    Each way may pass all groups and conditions, which match without a character: four of them count as another way.

    Returns None if it repeats what can match in several ways or without a character, or has many stars.
    Limits: an upper bound; names in which few characters match leave fewer ways.
    Check: a star, then one of two texts; an optional star before a character.
        >>> count_ways(".*(?:up|gate)x"), count_ways("a(?:.*b)?c")
        (((1, 2),), ((0, 21),))
    """
    parts = list(_parse(regex))
    try:
        if parts and str(parts[-1][0]) in _REPEATS and parts[-1][1][0] == 0 and _ways_of(parts[-1:]) == ONE_STAR:
            parts.pop()  # a star at the end, which may be empty, never makes a match fail
        found = _ways_of(parts)
    except _TooComplex:
        return None
    conditions = len(_CONDITIONS.findall(regex))
    return tuple((stars, count + count * conditions // 4) for stars, count in found)


def _ways_of(parsed: Iterable[tuple[Any, Any]]) -> Ways:
    """The ways of parts in a row. A star ends only where the character that follows it is."""
    found, parts = ONE_WAY, [*parsed, ("", None)]
    for (operation, argument), (following, _) in pairwise(parts):
        part = _ways_of_part(str(operation), argument)
        if part == ONE_STAR and str(following) == "LITERAL":
            part = ((0, SAME_CHARS),)
        if part != ONE_WAY:
            found = _sum_ways((stars + own, count * times) for stars, count in found for own, times in part)
    return found


def _sum_ways(ways: Iterable[tuple[int, int]]) -> Ways:
    """Alternatives together, those with equally many stars as one entry."""
    total = Counter[int]()
    for stars, count in ways:
        total[stars] += count
    if max(total) > MAX_STARS or sum(total.values()) > MAX_WAYS:
        raise _TooComplex
    return tuple(sorted(total.items()))


def _ways_of_part(operation: str, argument: Any) -> Ways:
    match operation:
        case "SUBPATTERN":
            return _ways_of(argument[-1])
        case "ATOMIC_GROUP":
            return _ways_of(argument)
        case "ASSERT" | "ASSERT_NOT":  # its stars begin anew
            return ((0, 1 + matching_steps(_ways_of(argument[1]), NAME_CHARS)),)
        case "BRANCH":
            return _ways_of_branches(argument[1])
        case "GROUPREF_EXISTS":
            return _ways_of_branches([branch for branch in argument[1:] if branch is not None])
        case _ if operation in _REPEATS:
            return _ways_of_repeat(*argument)
        case _:
            return ONE_WAY


def _ways_of_branches(branches: Sequence[Any]) -> Ways:
    """The ways of alternatives. Different texts without wildcards match at one place only if their lengths differ."""
    if any(str(operation) != "LITERAL" for branch in branches for operation, _ in branch):
        return _sum_ways(entry for branch in branches for entry in _ways_of(branch))
    most: dict[int, int] = {}
    texts = Counter("".join(chr(code) for _, code in branch).casefold() for branch in branches)
    for text, count in texts.items():
        most[len(text)] = max(count, most.get(len(text), 0))
    return ((0, sum(most.values())),)


def _ways_of_repeat(low: int, high: int, body: Any) -> Ways:
    once = _ways_of(body)
    if high <= 1:
        return once if low else _sum_ways((*ONE_WAY, *once))
    if once != ONE_WAY or body.getwidth()[0] == 0:
        raise _TooComplex
    return ONE_WAY if low == high else ONE_STAR


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
def _full_names(relative: tuple[str, ...], layer: int) -> tuple[str, ...]:
    names = [name.strip(".") for name in relative]
    if layer != ONCE[0]:
        names = [prefix.format(layer) + name for prefix in _PREFIXES for name in names]
    return tuple(names)


@lru_cache(maxsize=8192)
def _lengths(names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """How many names have each length."""
    return tuple(Counter(map(len, names)).items())
