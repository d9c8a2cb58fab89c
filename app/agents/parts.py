"""Reduces an answer to the members that agents need most; further members are available by name. Values stay as the API
returned them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from app.export.forms import OutputFormat, format_value, render_rows
from app.export.rows import comparison_rows, count_rows, deployment_row, ranking_rows, reason_lines, rejection_lines

Json = Mapping[str, Any]
WHOLE = "all"
OPTION_MEMBERS = ("rank", "deployment", "fits", "support", "performance", "bottleneck", "cost", "confidence")
# Members of `performance` that are returned on request only: load curves and the details of a simulation.
DETAIL_MEMBERS = ("simulation", "load_curve", "interval")
COMPARED_MEMBERS = ("name", "does_it", "fits", "id", "accelerator", "bottleneck")
MAX_REJECTIONS = 5


def select_members(option: Json, requested: Collection[str], default: Collection[str]) -> dict[str, Any]:
    """Members of one option that are default or requested."""
    kept = {name: value for name, value in option.items() if name in default or name in requested}
    if "performance" in kept and "performance" not in requested:
        kept["performance"] = {name: value for name, value in kept["performance"].items() if name not in DETAIL_MEMBERS}
    return kept


def shorten_answer(answer: Json, default: Collection[str], requested: Collection[str]) -> dict[str, Any]:
    """An answer with its default and requested members; `left_out` lists the names of the others."""
    if WHOLE in requested:
        return dict(answer)
    kept = select_members(answer, requested, default)
    for name, members in (("recommendations", OPTION_MEMBERS), ("options", COMPARED_MEMBERS)):
        if name in kept and name not in requested:
            kept[name] = [select_members(each, requested, members) for each in kept[name]]
    if answer.get("recommendations") == [] and "rejected" not in kept:
        kept["rejected"] = answer["rejected"][:MAX_REJECTIONS]
    left = [name for name in answer if name not in kept]
    return {**kept, "left_out": left} if left else kept


def recommendation_text(answer: Json) -> str:
    """A recommendation as Markdown: summary, ranked options, warnings, rejections by reason, and the id for further
    questions.
    """
    lines = [answer["summary"]]
    if answer["recommendations"]:
        lines += ["", render_rows(ranking_rows(answer), OutputFormat.MARKDOWN)]
    else:
        lines += ["", "Closest options:", *rejection_lines(answer, MAX_REJECTIONS)]
        lines += change_lines(answer)
    lines += ["", *warning_lines(answer)]
    counts = ", ".join(f"{code} {count}" for code, count in answer["rejected_by_code"].items())
    lines += [f"Rejected, by reason: {counts or 'none'}."]
    lines += [f"Stored as {answer['id']}. Call `explain` with this id for the reasons and details of an option."]
    return "\n".join(lines)


def warning_lines(answer: Json) -> list[str]:
    """One line per warning."""
    return [f"Note: {each['text']}" for each in answer.get("warnings", ())]


def change_lines(answer: Json) -> list[str]:
    """Lines that list what would change the answer; empty if the answer has no sensitivity."""
    lines = [f"- {each['change']}: {each['effect']}" for each in answer.get("sensitivity", ())]
    return ["", "What would change the answer", *lines] if lines else []


def estimate_text(answer: Json) -> str:
    """An estimate as Markdown: summary, figures, explanations and warnings."""
    table = render_rows([deployment_row(answer)], OutputFormat.MARKDOWN)
    return "\n".join([answer["summary"], "", table, "", *reason_lines(answer), *warning_lines(answer)])


def comparison_text(answer: Json) -> str:
    """A comparison as Markdown: summary, all figures side by side, and the ids of the stored answers."""
    stored = [f"{each['name']} is stored as {each['id']}." for each in answer["options"] if each.get("id")]
    return "\n".join([answer["summary"], "", render_rows(comparison_rows(answer), OutputFormat.MARKDOWN), "", *stored])


def model_text(answer: Json) -> str:
    """A model's counts as Markdown, with the weight size per format."""
    weights = ", ".join(f"{name} {format_value(value)}" for name, value in answer["weights_gib"].items())
    return "\n".join([render_rows(count_rows(answer), OutputFormat.MARKDOWN), "", f"Weight size in GiB: {weights}."])


def explanation_text(answer: Json) -> str:
    """Explanation of a stored answer: reasons of each option, rejections, and what would change the answer."""
    lines = [answer["summary"]]
    for each in answer["recommendations"]:
        lines += ["", f"Rank {each['rank']}", *reason_lines(each)]
    lines += ["", "Rejected", *rejection_lines(answer, 20)]
    return "\n".join([*lines, *change_lines(answer)])
