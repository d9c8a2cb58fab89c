"""docs/nomenclature.md: every symbol of the formulas, its unit, what it means and where it is made."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache

from app.sizing.assumptions import Assumptions
from artefacts.formulas import ROOT, Told, all_told, field_named

HEAD = """# Symbols of the formulas

Written by `make artefacts`. A symbol's name ends in its unit where it has one: base units throughout, fractions from 0
to 1. "made by" is the formula that yields it, the table or record it is a column of, or the assumption or fitted
coefficient that it is; where words are missing the table's own stand in brackets."""
# What the end of a name says of its unit; the longest that fits counts.
UNITS = {
    "_bytes": "B",
    "_bytes_per_s": "B/s",
    "_bytes_per_token": "B/token",
    "_flops": "FLOP",
    "_flops_per_s": "FLOP/s",
    "_flops_per_token": "FLOP/token",
    "_s": "s",
    "_per_s": "1/s",
    "_tokens": "tokens",
    "_tokens_per_s": "tokens/s",
    "_tokens_per_sequence": "tokens",
    "_samples_per_s": "samples/s",
    "_usd": "USD",
    "_usd_per_hour": "USD/h",
    "_w": "W",
    "_kw": "kW",
    "_hours": "h",
    "_days": "d",
    "_fraction": "1",
    "_share": "1",
    "_parallel": "1",
    "_sequences": "sequences",
    "_params": "parameters",
    "_elements": "elements",
}


TYPES = {"Mask": "yes or no", "bool": "yes or no", "Codes": "index"}


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    unit: str
    meaning: str
    made_by: str
    used_in: int  # formulas


@cache
def chosen() -> dict[str, tuple[str, str, str]]:
    """Unit, meaning and home of what is assumed or fitted."""
    found = {}
    for part in reversed(Assumptions.__mro__[1:]):
        for f in fields(part) if hasattr(part, "__dataclass_fields__") else ():
            at = f"{part.__module__.replace('.', '/')}.py"
            found[f.name] = (f.metadata["unit"], f.metadata["reason"], f"assumption, {at}")
    with (ROOT / "app" / "catalog" / "data" / "coefficients.csv").open() as file:
        for row in csv.DictReader(file):
            field = field_named(row["name"])
            words = field.words if field is not None and field.words else "fitted coefficient"
            found[row["name"]] = (row["unit"], words, "coefficient, app/sizing/hardware/achieved.py")
    return found


def unit_of(name: str) -> str:
    ends = [end for end in UNITS if name.endswith(end)]
    return UNITS[max(ends, key=len)] if ends else ""


def symbol(name: str, made: dict[str, list[Told]], used: int) -> Symbol:
    """One name: of a formula, else chosen or fitted, else a column or field."""
    if name in made:
        first, places = made[name][0], ", ".join(f"`{told.path}:{name}`" for told in made[name])
        return Symbol(name, first.formula.unit, first_sentence(first.summary), places, used)
    if name in chosen():
        unit, meaning, home = chosen()[name]
        return Symbol(name, unit, meaning, home, used)
    field = field_named(name)
    if field is None:
        takers = [f"`{t.name}`" for t in all_told() if name in t.formula.inputs]
        return Symbol(name, unit_of(name), f"what {' and '.join(takers[:2])} is given", "its caller", used)
    words = field.words or f"({field.owner}: {first_sentence(field.owner_words)})"
    return Symbol(name, TYPES.get(field.type) or unit_of(name), words, f"{field.owner}, {field.path}", used)


def first_sentence(words: str) -> str:
    return re.split(r"(?<=[a-z0-9)])\. |: (?=[A-Z])", words, maxsplit=1)[0].rstrip(".")


def symbols() -> Iterator[Symbol]:
    """Every input of every formula, and every formula's own name."""
    made: dict[str, list[Told]] = {}
    for told in all_told():
        made.setdefault(told.name, []).append(told)
    used: dict[str, int] = dict.fromkeys(made, 0)
    for told in all_told():
        for name in told.formula.inputs:
            used[name] = used.get(name, 0) + 1
    for name in sorted(used):
        yield symbol(name, made, used[name])


def page() -> str:
    rows = [f"| `{s.name}` | {s.unit} | {s.meaning.replace('|', '/')} | {s.made_by} | {s.used_in} |" for s in symbols()]
    head = "| symbol | unit | meaning | made by | formulas that take it |\n| --- | --- | --- | --- | ---: |"
    return "\n".join([HEAD, "", head, *rows]) + "\n"
