"""Answers as rows: the columns that decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]


def hardware(deployment: Json) -> str:
    """What is bought or rented.

    Check:
        >>> hardware({"accelerator": "nvidia-l4", "total_accelerators": 2})
        '2 x nvidia-l4'
    """
    pools = deployment.get("pools")
    if pools:
        return " + ".join(f"{hardware(pool)} ({name})" for name, pool in pools.items())
    return f"{deployment.get('total_accelerators')} x {deployment['accelerator']}"


def seller(deployment: Json) -> str | None:
    """Who lets or sells it."""
    offer = deployment.get("offer")
    if not offer:
        pools = deployment.get("pools") or {}
        return " + ".join(dict.fromkeys(s for pool in pools.values() if (s := seller(pool)))) or None
    return " ".join(str(offer[name]) for name in ("provider", "pricing_model") if offer.get(name))


def layout(deployment: Json) -> str | None:
    """How it is laid out: replicas of so many accelerators, of a run its degrees."""
    if deployment.get("pools"):
        return "two pools"
    degrees = {"dp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel", "ep": "expert_parallel"}
    said = [f"{short}{deployment[name]}" for short, name in degrees.items() if (deployment.get(name) or 1) > 1]
    replicas = deployment.get("replicas")
    spare = f"+{deployment['spare_replicas']}" if deployment.get("spare_replicas") else ""
    return " ".join([*([f"{replicas}{spare} replicas"] if replicas else []), *said]) or None


def software(deployment: Json) -> str | None:
    """Engine or framework, and the format of the weights or of the run."""
    of = deployment["pools"]["decode"] if deployment.get("pools") else deployment
    said = (of.get(name) for name in ("engine", "framework", "weight_format", "precision"))
    return " ".join(str(word) for word in said if word) or None


def judged(answer: Json) -> dict[str, Any]:
    """One deployment that was judged, as a row."""
    deployment, cost, speed = answer["deployment"], answer.get("cost") or {}, answer.get("performance") or {}
    price = "usd_total" if cost.get("usd_total") is not None else "usd_per_hour"
    row: dict[str, Any] = {
        "hardware": hardware(deployment),
        "from": seller(deployment),
        "layout": layout(deployment),
        "runs": software(deployment),
        price: cost.get(price),
    }
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        if speed.get(name):
            row[f"{name[:-3]}_p95_ms"] = speed[name].get("p95")
    for name in ("requests_per_s_capacity", "output_tokens_per_s", "tokens_per_s", "samples_per_s", "days", "mfu"):
        if speed.get(name) is not None:
            row[name] = speed[name]
    row["power_kw"] = cost.get("power_kw")
    return row


def ranked(answer: Json) -> list[dict[str, Any]]:
    """The recommendations, all with the same columns."""
    rows = [{"rank": each["rank"], **judged(each)} for each in answer["recommendations"]]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def compared(answer: Json) -> list[dict[str, Any]]:
    """The figures of a comparison, an option a column."""
    names = [each["name"] for each in answer["options"]]
    return [
        {"": line["quantity"], **dict(zip(names, line["values"], strict=True)), "unit": line["unit"]}
        for line in answer["table"]
    ]


def counted(answer: Json) -> list[dict[str, Any]]:
    """The plain counts of a model.

    Check:
        >>> counted({"parameters": 8, "parts": {}, "mixture": False})
        [{'': 'parameters', 'value': 8}]
    """
    plain = {k: v for k, v in answer.items() if isinstance(v, str | int | float) and not isinstance(v, bool)}
    return [{"": name, "value": value} for name, value in plain.items()]


def reasons(each: Json) -> Iterator[str]:
    """The sentences behind one option."""
    for reason in each.get("explanation", ()):
        yield f"- {reason['text']}"


def turned_down(answer: Json, most: int) -> Iterator[str]:
    """Why others were not taken."""
    for each in answer.get("rejected", ())[:most]:
        yield f"- {each['accelerator']}: {each['text']}"


def plain(items: list[dict[str, Any]], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of a list with the columns that people look for first."""
    return [{name: item.get(name) for name in columns} for item in items]
