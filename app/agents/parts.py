"""An answer as an agent gets it: the members that decide, more by name; values as the API gave them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from app.export.forms import Form, shown, written
from app.export.rows import compared, counted, judged, ranked, reasons, turned_down

Json = Mapping[str, Any]
WHOLE = "all"
OF_OPTION = ("rank", "deployment", "fits", "support", "performance", "bottleneck", "cost", "confidence")
# Of performance what has a place of its own: curves and the figures behind a simulation.
BEHIND = ("simulation", "load_curve", "interval")
OF_COMPARED = ("name", "does_it", "fits", "id", "accelerator", "bottleneck")
MOST_TOLD = 5


def headline(option: Json, asked: Collection[str], usual: Collection[str]) -> dict[str, Any]:
    """The members of one option that are usual or asked for."""
    kept = {name: value for name, value in option.items() if name in usual or name in asked}
    if "performance" in kept and "performance" not in asked:
        kept["performance"] = {name: value for name, value in kept["performance"].items() if name not in BEHIND}
    return kept


def shortened(answer: Json, usual: Collection[str], asked: Collection[str]) -> dict[str, Any]:
    """An answer with its usual members and those that were asked for; what was left out is named."""
    if WHOLE in asked:
        return dict(answer)
    kept = headline(answer, asked, usual)
    for name, of_each in (("recommendations", OF_OPTION), ("options", OF_COMPARED)):
        if name in kept and name not in asked:
            kept[name] = [headline(each, asked, of_each) for each in kept[name]]
    if answer.get("recommendations") == [] and "rejected" not in kept:
        kept["rejected"] = answer["rejected"][:MOST_TOLD]
    left = [name for name in answer if name not in kept]
    return {**kept, "left_out": left} if left else kept


def ranked_text(answer: Json) -> str:
    """A recommendation: what to take, the options, what is to be known of it, what to ask next."""
    lines = [answer["summary"]]
    if answer["recommendations"]:
        lines += ["", written(ranked(answer), Form.MARKDOWN)]
    else:
        lines += ["", "Nearest misses:", *turned_down(answer, MOST_TOLD)]
        lines += changes(answer)
    lines += ["", *cautions(answer)]
    counts = ", ".join(f"{code} {count}" for code, count in answer["rejected_by_code"].items())
    lines += [f"Turned down, by reason: {counts or 'none'}."]
    lines += [f"Stored as {answer['id']}: explain tells why, and more of any option."]
    return "\n".join(lines)


def cautions(answer: Json) -> list[str]:
    """Warnings, a line each."""
    return [f"Note: {each['text']}" for each in answer.get("warnings", ())]


def changes(answer: Json) -> list[str]:
    """What would change an answer, a line each."""
    found = [f"- {each['change']}: {each['effect']}" for each in answer.get("sensitivity", ())]
    return ["", "What would change it", *found] if found else []


def judged_text(answer: Json) -> str:
    """An estimate: what it does, its figures, the sentences behind it."""
    table = written([judged(answer)], Form.MARKDOWN)
    return "\n".join([answer["summary"], "", table, "", *reasons(answer), *cautions(answer)])


def compared_text(answer: Json) -> str:
    """A comparison: what sets the options apart, then every figure side by side."""
    kept = [f"{each['name']} is stored as {each['id']}." for each in answer["options"] if each.get("id")]
    return "\n".join([answer["summary"], "", written(compared(answer), Form.MARKDOWN), "", *kept])


def counted_text(answer: Json) -> str:
    """The counts of a model."""
    weights = ", ".join(f"{name} {shown(value)}" for name, value in answer["weights_gib"].items())
    return "\n".join([written(counted(answer), Form.MARKDOWN), "", f"Weights in GiB: {weights}."])


def explained_text(answer: Json) -> str:
    """Why an option of a stored answer is what it is, and why others were turned down."""
    lines = [answer["summary"]]
    for each in answer["recommendations"]:
        lines += ["", f"Rank {each['rank']}", *reasons(each)]
    lines += ["", "Turned down", *turned_down(answer, 20)]
    return "\n".join([*lines, *changes(answer)])
