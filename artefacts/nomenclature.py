"""docs/nomenclature.md: every symbol of the formulas, with its unit, meaning and origin."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache

from app.sizing.assumptions import Assumptions
from artefacts.formulas import ROOT, Field, FormulaDoc, all_formulas, field_named, owners_by_name

HEAD = """# Symbols of the formulas

`make artefacts` writes this page. A symbol's name ends in its unit where it has one. Units are base units throughout;
shares are from 0 to 1, and "1" stands for counts, shares and other plain numbers. "Origin" is the formula that computes
the symbol, the table or record that has it as a column, the assumption or fitted coefficient that it is, or the formula
that takes it as a parameter. To find a formula, search this page for a word of its meaning."""
# Unit that the end of a name states; the longest match counts.
UNITS = {
    "_bytes": "B",
    "_bytes_per_s": "B/s",
    "_bytes_per_token": "B/token",
    "_flops": "FLOP",
    "_flops_per_s": "FLOP/s",
    "_flops_per_token": "FLOP/token",
    "_s": "s",
    "_ms": "ms",
    "_per_s": "1/s",
    "_tokens": "tokens",
    "_tokens_per_s": "tokens/s",
    "_tokens_per_request": "tokens",
    "_tokens_per_sequence": "tokens",
    "_samples_per_s": "samples/s",
    "_requests_per_s": "requests/s",
    "_usd": "USD",
    "_usd_per_hour": "USD/h",
    "_usd_per_month": "USD/month",
    "_usd_per_gib": "USD/GiB",
    "_usd_per_million": "USD per million",
    "_usd_per_million_input": "USD per million tokens",
    "_usd_per_million_cached_input": "USD per million tokens",
    "_usd_per_million_output": "USD per million tokens",
    "_bytes_per_param": "B/parameter",
    "_bytes_per_logit": "B/logit",
    "_bytes_per_input": "B/element",
    "_bytes_per_element": "B/element",
    "_bytes_per_sequence": "B/sequence",
    "_flops_per_unit": "FLOP/unit",
    "_params_per_rank": "parameters",
    "_requests_per_hour": "requests/h",
    "_joules_per_unit": "J/unit",
    "_w": "W",
    "_kw": "kW",
    "_hours": "h",
    "_days": "d",
    "_month": "months",
    "_months": "months",
    "_gib": "GiB",
    "_gbit_per_s": "Gbit/s",
    "_fraction": "1",
    "_share": "1",
    "_parallel": "1",
    "_sequences": "sequences",
    "_params": "parameters",
    "_elements": "elements",
}
# Unit of counted things that a name alone states.
COUNTED = {
    "batch": "sequences",
    "hosts": "hosts",
    "in_flight": "requests",
    "later_requests": "requests",
    "replicas": "replicas",
    "volume_requests": "requests",
}
# Unit that the end of a meaning states, after the last comma or before a semicolon.
SPELLED = {
    **dict.fromkeys(("bytes", "B"), "B"),
    "bytes/s": "B/s",
    "elements": "elements",
    "FLOPs": "FLOP",
    **dict.fromkeys(("months", "tokens", "requests", "samples", "sequences", "parameters"), ""),
    **dict.fromkeys(("s", "ms", "h", "W", "kW", "kWh", "J", "USD", "USD/h", "1/s", "GiB", "Gbit/s"), ""),
    **dict.fromkeys(("requests/s", "tokens/s", "samples/s", "B/s", "FLOP", "FLOP/s", "USD/month"), ""),
}
TYPES = {"Mask": "yes or no", "bool": "yes or no", "Codes": "index", "str": "text"}
NUMBERS = ("Column", "float", "int")


@dataclass(frozen=True, slots=True)
class Symbol:
    """One row of the page."""

    name: str
    unit: str
    meaning: str
    made_by: str
    used_in: int  # formulas


@cache
def assumptions_and_coefficients() -> dict[str, tuple[str, str, str]]:
    """(unit, meaning, origin) of every assumption and fitted coefficient, by name."""
    rows = {}
    for f in fields(Assumptions):
        rows[f.name] = (f.metadata["unit"], f.metadata["reason"], "assumption, app/sizing/data/assumptions.csv")
    with (ROOT / "app" / "catalog" / "data" / "coefficients.csv").open() as file:
        for row in csv.DictReader(file):
            field = field_named(row["name"])
            words = field.words if field is not None and field.words else "fitted coefficient"
            rows[row["name"]] = (row["unit"], words, "coefficient, app/sizing/hardware/achieved.py")
    return rows


def unit_of(name: str, meaning: str = "", kind: str = "") -> str:
    """The unit of a symbol: of its name's ending, else of its meaning's, else of its type.

    A rate is per second by its name; its meaning says what of.
    """
    if name in COUNTED:
        return COUNTED[name]
    ends = [end for end in UNITS if f"_{name}".endswith(end)]
    of_name = UNITS[max(ends, key=len)] if ends else ""
    if of_name not in ("", "1/s"):
        return of_name
    if kind in TYPES:
        return TYPES[kind]
    if meaning.startswith("whether "):
        return TYPES["bool"]
    for clause in re.split(r"; |: ", meaning):
        stated = clause.rpartition(", ")[2].strip()
        if stated in SPELLED and stated != meaning:
            return SPELLED[stated] or stated
    if of_name:
        return of_name
    return "1" if not kind or any(number in kind for number in NUMBERS) else ""


def describe_symbol(name: str, made: dict[str, list[FormulaDoc]], used: int) -> Symbol:
    """The row of one name: a formula, else an assumption or coefficient, else a field, else a parameter."""
    if name in made:
        first, places = made[name][0], ", ".join(f"`{doc.path}:{name}`" for doc in made[name])
        return Symbol(name, first.formula.unit, first_sentence(first.summary), places, used)
    if name in assumptions_and_coefficients():
        unit, meaning, home = assumptions_and_coefficients()[name]
        return Symbol(name, unit, meaning, home, used)
    takers = [doc for doc in all_formulas() if name in doc.formula.inputs]
    meanings = [doc.parameters[name] for doc in takers if name in doc.parameters]
    field = field_named(name) if name in owners_by_name() or not meanings else None
    if field is None:
        home = f"parameter of {' and '.join(f'`{doc.name}`' for doc in takers[:2])}"
        meaning = meanings[0] if meanings else ""
        return Symbol(name, unit_of(name, meaning), without_unit(meaning), home, used)
    meaning = first_sentence(field.words) or (meanings or [in_words(field)])[0]
    unit = unit_of(name, meaning, field.type)
    return Symbol(name, unit, without_unit(meaning), f"{field.owner}, {field.path}", used)


def without_unit(meaning: str) -> str:
    """A meaning without the unit after its last comma, which has its own column."""
    words, _, stated = meaning.rpartition(", ")
    return words if stated in SPELLED and words else meaning


def in_words(field: Field) -> str:
    """The name of a field and of its class as words: `num_layers` of `StepWork` is "num layers of the step work"."""
    owner = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", field.owner).lower()
    return f"{field.name.replace('_', ' ')} of the {owner}"


def first_sentence(words: str) -> str:
    """The first sentence, without its full stop."""
    return re.split(r"(?<=[a-z0-9)])\. |: (?=[A-Z])", words, maxsplit=1)[0].rstrip(".")


def all_symbols() -> Iterator[Symbol]:
    """A row for every formula and every input of a formula, by name."""
    made: dict[str, list[FormulaDoc]] = {}
    for doc in all_formulas():
        made.setdefault(doc.name, []).append(doc)
    used: dict[str, int] = dict.fromkeys(made, 0)
    for doc in all_formulas():
        for name in doc.formula.inputs:
            used[name] = used.get(name, 0) + 1
    for name in sorted(used):
        yield describe_symbol(name, made, used[name])


def page() -> str:
    """docs/nomenclature.md as text."""
    rows = [
        f"| `{s.name}` | {s.unit} | {s.meaning.replace('|', '/')} | {s.made_by} | {s.used_in} |" for s in all_symbols()
    ]
    head = "| symbol | unit | meaning | origin | formulas that use it |\n| --- | --- | --- | --- | ---: |"
    return "\n".join([HEAD, "", head, *rows]) + "\n"
