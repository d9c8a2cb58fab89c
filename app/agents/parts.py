"""Reduces an answer to the members that agents need most; further members are available by name. Values stay as the API
returned them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from app.export.forms import Form, shown, render_rows
from app.export.rows import compared, counted, judged, ranked, reasons, turned_down

Json = Mapping[str, Any]
WHOLE = "all"
OF_OPTION = ("rank", "deployment", "fits", "support", "performance", "bottleneck", "cost", "confidence")
# Members of `performance` that are returned on request only: load curves and the details of a simulation.
BEHIND = ("simulation", "load_curve", "interval")
OF_COMPARED = ("name", "does_it", "fits", "id", "accelerator", "bottleneck")
MOST_TOLD = 5


def headline(option: Json, requested: Collection[str], default: Collection[str]) -> dict[str, Any]:
    """Members of one option that are default or requested."""
    kept = {name: value for name, value in option.items() if name in default or name in requested}
    if "performance" in kept and "performance" not in requested:
        kept["performance"] = {name: value for name, value in kept["performance"].items() if name not in BEHIND}
    return kept


def shortened(answer: Json, default: Collection[str], requested: Collection[str]) -> dict[str, Any]:
    """An answer with its default and requested members; `left_out` lists the names of the others."""
    if WHOLE in requested:
        return dict(answer)
    kept = headline(answer, requested, default)
    for name, members in (("recommendations", OF_OPTION), ("options", OF_COMPARED)):
        if name in kept and name not in requested:
            kept[name] = [headline(each, requested, members) for each in kept[name]]
    if answer.get("recommendations") == [] and "rejected" not in kept:
        kept["rejected"] = answer["rejected"][:MOST_TOLD]
    left = [name for name in answer if name not in kept]
    return {**kept, "left_out": left} if left else kept


def ranked_text(answer: Json) -> str:
    """A recommendation as Markdown: summary, ranked options, warnings, rejections by reason, and the id for further
    questions.
    """
    lines = [answer["summary"]]
    if answer["recommendations"]:
        lines += ["", render_rows(ranked(answer), Form.MARKDOWN)]
    else:
        lines += ["", "Closest options:", *turned_down(answer, MOST_TOLD)]
        lines += changes(answer)
    lines += ["", *cautions(answer)]
    counts = ", ".join(f"{code} {count}" for code, count in answer["rejected_by_code"].items())
    lines += [f"Rejected, by reason: {counts or 'none'}."]
    lines += [f"Stored as {answer['id']}. Call `explain` with this id for the reasons and details of an option."]
    return "\n".join(lines)


def cautions(answer: Json) -> list[str]:
    """One line per warning."""
    return [f"Note: {each['text']}" for each in answer.get("warnings", ())]


def changes(answer: Json) -> list[str]:
    """Lines that list what would change the answer; empty if the answer has no sensitivity."""
    lines = [f"- {each['change']}: {each['effect']}" for each in answer.get("sensitivity", ())]
    return ["", "What would change the answer", *lines] if lines else []


def judged_text(answer: Json) -> str:
    """An estimate as Markdown: summary, figures, explanations and warnings."""
    table = render_rows([judged(answer)], Form.MARKDOWN)
    return "\n".join([answer["summary"], "", table, "", *reasons(answer), *cautions(answer)])


def compared_text(answer: Json) -> str:
    """A comparison as Markdown: summary, all figures side by side, and the ids of the stored answers."""
    stored = [f"{each['name']} is stored as {each['id']}." for each in answer["options"] if each.get("id")]
    return "\n".join([answer["summary"], "", render_rows(compared(answer), Form.MARKDOWN), "", *stored])


def counted_text(answer: Json) -> str:
    """A model's counts as Markdown, with the weight size per format."""
    weights = ", ".join(f"{name} {shown(value)}" for name, value in answer["weights_gib"].items())
    return "\n".join([render_rows(counted(answer), Form.MARKDOWN), "", f"Weight size in GiB: {weights}."])


def explained_text(answer: Json) -> str:
    """Explanation of a stored answer: reasons of each option, rejections, and what would change the answer."""
    lines = [answer["summary"]]
    for each in answer["recommendations"]:
        lines += ["", f"Rank {each['rank']}", *reasons(each)]
    lines += ["", "Rejected", *turned_down(answer, 20)]
    return "\n".join([*lines, *changes(answer)])
