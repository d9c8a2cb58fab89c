"""The largest load within limits: hardware for it, and none for more."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.api.largest_model import find_first, list_language_models
from app.api.merge_patch import apply_merge_patch
from app.catalog.snapshot import CatalogStore
from tests.examples import answer_of

LENGTHS = {"input_tokens": {"mean": 1000}, "output_tokens": {"mean": 300}}


def chat(**load: Any) -> dict[str, Any]:
    return {"phase": "inference", "model": "llama-3.1-8b", "traffic": {**load, **LENGTHS}}


def training(tokens: float) -> dict[str, Any]:
    return {"phase": "training", "model": "llama-3.1-8b", "training_tokens": tokens, "deadline_days": 30}


FOUR_A6000 = [{"accelerator": "a6000", "count": 4}]
CASES = [
    (chat(peak_requests_per_s=1), "requests_per_s", {"constraints": {"max_usd_per_hour": 10}}),
    (chat(peak_requests_per_s=500), "requests_per_s", {"constraints": {"max_usd_per_hour": 10}}),
    (
        chat(peak_requests_per_s=1),
        "requests_per_s",
        {"constraints": {"max_purchase_usd": 500_000, "environments": ["on_prem"]}},
    ),
    (chat(peak_requests_per_s=1), "requests_per_s", {"constraints": {"max_power_kw": 40}}),
    (chat(users={"count": 100, "requests_per_hour_each": 12}), "users", {"inventory": FOUR_A6000}),
    (chat(concurrent_requests=1), "users", {"inventory": FOUR_A6000, "constraints": {"inventory": "only"}}),
    (training(1e9), "tokens", {"inventory": [{"system": "dgx-h100", "count": 4}]}),
]


def load_in(workload: dict[str, Any], value: float) -> dict[str, Any]:
    if "training_tokens" in workload:
        return {**workload, "training_tokens": value}
    traffic = workload["traffic"]
    if "users" in traffic:
        return {**workload, "traffic": {**traffic, "users": {**traffic["users"], "count": value}}}
    name = "concurrent_requests" if "concurrent_requests" in traffic else "peak_requests_per_s"
    return {**workload, "traffic": {**traffic, name: int(value) if name == "concurrent_requests" else value}}


def best(client: TestClient, body: dict[str, Any]) -> Any:
    return answer_of(client.post("/recommend", json={"include": [], "limit": 1, **body}))


@pytest.mark.parametrize(("workload", "unit", "limits"), CASES)
def test_the_largest_load_is_feasible_and_a_tenth_more_is_not(
    client: TestClient, workload: dict[str, Any], unit: str, limits: dict[str, Any]
) -> None:
    if "traffic" in workload:  # limits that are left open are lengthened instead
        workload = {**workload, "slo": {"ttft_ms": 2000, "tpot_ms": 50}}
    answer = best(client, {"workload": workload, "maximize": unit, **limits})
    largest = answer["maximum"]
    assert largest["quantity"] == unit
    assert answer["summary"].startswith("The largest load within the limits is ")
    deployment = answer["recommendations"][0]["deployment"]
    same = best(client, {"workload": load_in(workload, largest["value"]), **limits})
    assert same["recommendations"][0]["deployment"] == deployment
    more = best(client, {"workload": load_in(workload, largest["value"] * 1.15), **limits})
    owned = "inventory" in limits
    for level in answer["recommendations"][0]["confidence"]["by_level"]:  # no operating cost of machines not owned
        is_more = owned and (level["total_accelerators"] or 0) > deployment["total_accelerators"]
        assert not is_more or ("usd_per_hour" not in level and "your inventory has" in level["unreachable"]["why"])
    assert not [r for r in more["recommendations"] if not owned or r["deployment"]["offer"]["provider"] == "inventory"]


def test_the_types_of_an_inventory_carry_the_largest_load_together(client: TestClient) -> None:
    owned = [{"accelerator": "rtx 3090", "count": 4}, {"accelerator": "rtx 4090", "count": 3}]
    body = {"workload": {**chat(users={"count": 10, "requests_per_hour_each": 60}), "model": "qwen3-8b"}}
    together = best(client, {**body, "maximize": "users", "inventory": owned})
    alone = best(client, {**body, "maximize": "users", "inventory": owned[1:]})["maximum"]["value"]
    groups = together["mixed_fleet"]["groups"]
    assert [group["deployment"]["total_accelerators"] for group in groups] == [3, 4]
    assert sum(group["share"] for group in groups) == pytest.approx(1, abs=1e-5)
    assert groups[0]["share"] * together["maximum"]["value"] == pytest.approx(alone, rel=0.1)
    assert together["recommendations"] == [] and {r["code"] for r in together["rejected"]} == {"inventory_too_small"}
    at = f"/recommendations/{together['id']}"  # without a single option, the mixed fleet is the plan
    bill = client.get(f"{at}/bill-of-materials").json()
    assert bill["rank"] == 0 and sum(line.get("owned", False) for line in bill["lines"]) == 2
    standing = client.get(f"{at}/standing").json()
    assert standing["holds"] and standing["plan"]["rank"] == 0
    assert client.get(f"{at}/deployment?target=shell").json()["rank"] == 0
    assert client.post(f"{at}/reprice").json()["machines"]["rank"] == 0
    missing = client.get(f"{at}/standing?rank=1").json()["detail"]
    assert missing == "This answer has no rank 1. No single option was feasible. Rank 0 is its mixed fleet."


def test_a_purchase_budget_alone_buys_and_rents_nothing(client: TestClient) -> None:
    """It limits no rent, so that rents would carry any load."""
    body = {"workload": chat(peak_requests_per_s=1), "maximize": "requests_per_s"}
    answer = best(client, {**body, "constraints": {"max_purchase_usd": 30_000}})
    (option,) = answer["recommendations"]
    assert option["deployment"]["offer"]["pricing_model"] == "owned" and option["cost"]["purchase_usd"] <= 30_000
    assert answer["request"]["constraints"]["pricing_models"] == ["owned"]
    assert "purchases_only" in [warning["code"] for warning in answer["warnings"]]
    limits = {"max_purchase_usd": 30_000, "environments": ["cloud"]}
    refused = client.post("/recommend", json={**body, "constraints": limits})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/constraints/max_purchase_usd")


def test_more_money_never_carries_less(client: TestClient) -> None:
    found = [
        best(
            client,
            {
                "workload": chat(peak_requests_per_s=1),
                "maximize": "requests_per_s",
                "constraints": {"max_usd_per_hour": usd},
            },
        )["maximum"]["value"]
        for usd in (2, 4, 8, 16, 32)
    ]
    assert found == sorted(found)
    assert found[-1] > 8 * found[0]


def test_a_limit_that_no_load_meets_gives_the_reasons_for_the_load_of_the_request(client: TestClient) -> None:
    answer = best(
        client,
        {
            "workload": {**chat(peak_requests_per_s=1), "model": "deepseek-v3"},
            "maximize": "requests_per_s",
            "constraints": {"max_usd_per_hour": 0.5},
        },
    )
    assert answer["recommendations"] == []
    assert answer.get("maximum") is None
    assert answer["rejected"]


def served(model: str) -> dict[str, Any]:
    return {**chat(concurrent_requests=8), "model": model, "slo": {"tpot_ms": 50, "ttft_ms": 5000}}


@pytest.mark.parametrize(
    "limits",
    [
        {"constraints": {"max_purchase_usd": 30_000, "environments": ["on_prem"]}},
        {"constraints": {"max_power_kw": 5}},
    ],
)
def test_the_largest_model_meets_the_limits_and_the_next_larger_ones_do_not(
    client: TestClient, catalog_store: CatalogStore, limits: dict[str, Any]
) -> None:
    answer = best(client, {"workload": served("llama-3.2-1b"), "maximize": "model", **limits})
    largest = answer["maximum"]
    assert largest["quantity"] == "model"
    assert answer["summary"].startswith(f"The largest model within the limits is {largest['model']}. ")
    assert answer["request"]["workload"]["model"] == largest["model"]
    same = best(client, {"workload": served(largest["model"]), **limits})
    assert answer["recommendations"] == same["recommendations"] != []
    assert best(client, answer["request"])["recommendations"] == same["recommendations"]
    names = [f["hf_id"] for f in list_language_models(catalog_store) if f["release_date"] >= "2024-11-20"]
    for larger in names[max(0, names.index(largest["model"]) - 2) : names.index(largest["model"])]:
        more = best(client, {"workload": served(larger), **limits})
        assert more["recommendations"] == []


def test_models_are_tried_in_the_order_of_the_request(client: TestClient) -> None:
    def found(*models: str) -> Any:
        body = {"workload": served("llama-3.2-1b"), "inventory": FOUR_A6000, "maximize": "model", "models": models}
        return best(client, body)

    answer = found("deepseek-v3", "llama-3.1-8b", "llama-3.3-70b")
    assert answer["maximum"]["model"] == "meta-llama/Llama-3.1-8B"
    assert answer["summary"].startswith("The first of your models within the limits is meta-llama/Llama-3.1-8B. ")
    none = found("deepseek-v3")
    assert "maximum" not in none
    assert none["request"]["workload"]["model"] == "llama-3.2-1b"


@pytest.mark.parametrize(
    ("likely", "met", "searches", "found"),
    [
        ("0010100000", "0000100000", 20, 4),  # in order, as exactly as there is time
        ("0000000000", "0000000000", 10, None),
        ("0000000111", "0000000101", 2, 7),  # the other sizes by halves
        ("00..0.1.01", "0000001001", 2, 6),  # without models that have no such use
        ("0000000111", "0000000001", 2, 9),  # a simulation decides
        ("0000001111", "0000000000", 2, None),
    ],
)
def test_sizes_beyond_the_searches_in_order_are_searched_by_halves(
    likely: str, met: str, searches: int, found: int | None
) -> None:
    known: dict[str, bool | None] = {"0": False, "1": True, ".": None}
    sizes = [1e9 * n for n in range(len(likely), 0, -1)]
    place, judged = find_first(sizes, lambda i: known[likely[i]], lambda i: met[i] == "1", searches)
    assert place == found
    assert searches == 2 or judged == set(range(len(likely) if found is None else found + 1))


def test_an_answer_names_the_models_that_were_not_searched(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.largest_model.searches_allowed", lambda _: 1)
    models = ["deepseek-v3", "llama-3.1-405b", "llama-3.3-70b", "llama-3.1-8b", "llama-3.2-3b", "llama-3.2-1b"]
    limits = {"inventory": [{"accelerator": "l4", "count": 1}], "constraints": {"inventory": "only"}}
    answer = best(client, {"workload": served("llama-3.2-1b"), "maximize": "model", "models": models, **limits})
    (notice,) = [each for each in answer["warnings"] if each["code"] == "models_not_searched"]
    assert notice["text"].startswith("2 models were not searched, llama-3.1-405b first, because")
    assert answer["maximum"]["model"] == "meta-llama/Llama-3.2-3B"


@pytest.mark.parametrize(
    ("body", "status", "pointer", "text"),
    [
        ({"maximize": "model"}, 422, "#/maximize", "no largest model"),
        ({"models": ["llama-3.1-8b"]}, 422, "#", "set maximize to model"),
        ({"maximize": "users", "models": ["llama-3.1-8b"]}, 422, "#", "set maximize to model"),
        ({"maximize": "model", "models": ["a", "nonsuch-9"], "inventory": FOUR_A6000}, 404, "#/models/0", "Unknown"),
    ],
)
def test_models_that_cannot_be_tried_are_refused(
    client: TestClient, body: dict[str, Any], status: int, pointer: str, text: str
) -> None:
    response = client.post("/recommend", json={"workload": served("llama-3.2-1b"), **body})
    assert response.status_code == status, response.text
    error = response.json()["errors"][0]
    assert error["pointer"] == pointer
    assert text in error["detail"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"workload": chat(peak_requests_per_s=1), "maximize": "requests_per_s"}, "Without a limit"),
        ({"workload": chat(peak_requests_per_s=1), "maximize": "tokens"}, "requires phase training or fine_tuning"),
        ({"workload": chat(peak_requests_per_s=1), "maximize": "users"}, "requires traffic.users"),
        ({"workload": chat(concurrent_requests=1), "maximize": "requests_per_s"}, "requires traffic with a rate"),
        ({"workload": training(1e9), "maximize": "requests_per_s"}, "requires traffic with a rate"),
        ({"workload": chat(peak_requests_per_s=1), "maximize": "speed"}, "Accepted values: requests_per_s, users"),
    ],
)
def test_a_load_that_cannot_be_maximized_is_refused(client: TestClient, body: dict[str, Any], text: str) -> None:
    response = client.post("/recommend", json=body)
    assert response.status_code == 422
    error = response.json()["errors"][0]
    assert error["pointer"] == "#/maximize"
    assert text in error["detail"]


def few(usd_per_hour: float, *accelerators: str) -> dict[str, Any]:
    return {"constraints": {"max_usd_per_hour": usd_per_hour, "accelerators": accelerators}}


@pytest.mark.parametrize(
    ("workload", "unit", "limits"),
    [
        (chat(peak_requests_per_s=1), "requests_per_s", few(4, "l4", "l40s")),
        (
            {"phase": "fine_tuning", "model": "llama-3.1-8b", "examples": 20_000, "deadline_days": 2},
            "tokens",
            few(10, "h100 sxm", "l40s"),
        ),
        (served("llama-3.2-1b"), "model", {"inventory": FOUR_A6000, "models": ["llama-3.1-8b"]}),
    ],
)
def test_changes_of_a_largest_load_or_model_start_from_it(
    client: TestClient, workload: dict[str, Any], unit: str, limits: dict[str, Any]
) -> None:
    answer = best(client, {"workload": workload, "maximize": unit, **limits})
    found = client.get(f"/recommendations/{answer['id']}/sensitivity").json()
    assert found["first"] == answer["recommendations"][0]["deployment"]["accelerator"]
    assert found["flips"] or found["holds"]
    for flip in found["flips"][:1]:
        changed = best(client, apply_merge_patch(answer["request"], flip["request"]))
        assert "maximum" not in changed
        first = changed["recommendations"][:1]
        assert (first[0]["deployment"]["accelerator"] if first else "nothing") == flip["first"]
        longer = any(w["code"] == "assumed_limits_missed" for w in changed["warnings"])
        assert longer == ("within longer limits than usual" in flip["text"])
    at_load = [flip for flip in found["flips"] if flip["knob"] in ("load", "training_tokens")]
    assert unit == "model" or all(
        flip["now"] == pytest.approx(answer["maximum"]["value"], rel=1e-3) for flip in at_load
    )
