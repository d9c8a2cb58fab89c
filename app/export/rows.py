"""Converts answers to table rows with their most decisive columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]


def describe_hardware(deployment: Json) -> str:
    """Accelerators of a deployment with their count.

    Check:
        >>> describe_hardware({"accelerator": "nvidia-l4", "total_accelerators": 2})
        '2 x nvidia-l4'
    """
    pools = deployment.get("pools")
    if pools:
        return " + ".join(f"{describe_hardware(pool)} ({name})" for name, pool in pools.items())
    return f"{deployment.get('total_accelerators')} x {deployment['accelerator']}"


def describe_seller(deployment: Json) -> str | None:
    """Provider and pricing model of a deployment; None if it has no offer."""
    offer = deployment.get("offer")
    if not offer:
        pools = deployment.get("pools") or {}
        return " + ".join(dict.fromkeys(s for pool in pools.values() if (s := describe_seller(pool)))) or None
    return " ".join(str(offer[name]) for name in ("provider", "pricing_model") if offer.get(name))


def describe_layout(deployment: Json) -> str | None:
    """Layout of a deployment: its replicas, or the parallel degrees of a run."""
    if deployment.get("pools"):
        return "two pools"
    degrees = {"dp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel", "ep": "expert_parallel"}
    parts = [f"{short}{deployment[name]}" for short, name in degrees.items() if (deployment.get(name) or 1) > 1]
    replicas = deployment.get("replicas")
    spare = f"+{deployment['spare_replicas']}" if deployment.get("spare_replicas") else ""
    return " ".join([*([f"{replicas}{spare} replicas"] if replicas else []), *parts]) or None


def describe_software(deployment: Json) -> str | None:
    """Engine or framework, with the weight format or the precision of the run."""
    pool = deployment["pools"]["decode"] if deployment.get("pools") else deployment
    parts = (pool.get(name) for name in ("engine", "framework", "weight_format", "precision"))
    return " ".join(str(part) for part in parts if part) or None


def deployment_row(answer: Json) -> dict[str, Any]:
    """Row of one estimated deployment."""
    deployment, cost, speed = answer["deployment"], answer.get("cost") or {}, answer.get("performance") or {}
    price = "usd_total" if cost.get("usd_total") is not None else "usd_per_hour"
    row: dict[str, Any] = {
        "hardware": describe_hardware(deployment),
        "from": describe_seller(deployment),
        "layout": describe_layout(deployment),
        "runs": describe_software(deployment),
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


def ranking_rows(answer: Json) -> list[dict[str, Any]]:
    """Rows of the recommendations, all with the same columns."""
    rows = [{"rank": each["rank"], **deployment_row(each)} for each in answer["recommendations"]]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def comparison_rows(answer: Json) -> list[dict[str, Any]]:
    """Rows of a comparison: one figure per row, one option per column."""
    names = [each["name"] for each in answer["options"]]
    return [
        {"": line["quantity"], **dict(zip(names, line["values"], strict=True)), "unit": line["unit"]}
        for line in answer["table"]
    ]


def count_rows(answer: Json) -> list[dict[str, Any]]:
    """Rows of the plain counts of a model.

    Check:
        >>> count_rows({"parameters": 8, "parts": {}, "mixture": False})
        [{'': 'parameters', 'value': 8}]
    """
    plain = {k: v for k, v in answer.items() if isinstance(v, str | int | float) and not isinstance(v, bool)}
    return [{"": name, "value": value} for name, value in plain.items()]


def reason_lines(each: Json) -> Iterator[str]:
    """Explanations of one option, as list items."""
    for reason in each.get("explanation", ()):
        yield f"- {reason['text']}"


def rejection_lines(answer: Json, most: int) -> Iterator[str]:
    """Rejected accelerators with the reason, as list items.

    Parameters:
        most: maximum number of items.
    """
    for each in answer.get("rejected", ())[:most]:
        yield f"- {each['accelerator']}: {each['text']}"


def select_columns(items: list[dict[str, Any]], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows reduced to the given columns."""
    return [{name: item.get(name) for name in columns} for item in items]
