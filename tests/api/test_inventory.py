"""Hardware that the caller owns: what it can do, what it costs, and what happens if it is not enough."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.sizing.hardware.parts import OwnedHardware
from app.sizing.inventory import machine_record
from app.sizing.snapshot import Catalog
from tests.api.test_sensitivity import sensitivity_of
from tests.examples import answer_of

FOUR_A6000 = [{"accelerator": "a6000", "count": 4}]
QLORA = {
    "phase": "fine_tuning",
    "method": "qlora",
    "model": "llama-3.1-70b",
    "training_tokens": 2e7,
    "deadline_days": 14,
}


LONG_RUN = {"phase": "training", "model": "llama-3.1-8b", "training_tokens": 1e11, "deadline_days": 14}


def chat(model: str = "llama-3.1-8b", in_flight: int = 20) -> dict[str, Any]:
    lengths = {"input_tokens": {"mean": 1000}, "output_tokens": {"mean": 300}}
    return {"phase": "inference", "model": model, "traffic": {"concurrent_requests": in_flight, **lengths}}


def answered(client: TestClient, workload: dict[str, Any], owned: list[dict[str, Any]], **constraints: Any) -> Any:
    body = {"workload": workload, "inventory": owned, "constraints": constraints}
    return answer_of(client.post("/recommend", json=body))


def refused(client: TestClient, inventory: list[dict[str, Any]]) -> tuple[str, str]:
    """Pointer and detail of the first error."""
    response = client.post("/recommend", json={"workload": chat(), "inventory": inventory})
    assert response.status_code in (404, 422), response.text
    error = response.json()["errors"][0]
    return error["pointer"], error["detail"]


def test_owned_cards_cost_their_operation_and_no_more_than_owned_are_used(client: TestClient) -> None:
    answer = answered(client, chat(), FOUR_A6000)
    (best,) = answer["recommendations"]
    assert (best["deployment"]["accelerator"], best["deployment"]["total_accelerators"]) == ("nvidia-rtx-a6000", 4)
    assert best["cost"]["purchase_usd"] == 0
    power = best["cost"]["power_kw"] * 0.12 * 1.3  # the default price of electricity and the default PUE
    assert best["cost"]["usd_per_hour"] == pytest.approx(power, rel=1e-3)
    assert answer["rejected"] == []


@pytest.mark.parametrize(
    ("workload", "inventory"),
    [
        (chat("llama-3.3-70b", 100), [{"accelerator": "h100 sxm", "count": 8}]),
        (chat("gpt-oss-120b", 1), [{"system": "dgx spark", "count": 2}]),
        (chat("deepseek-v3", 64), [{"accelerator": "mi300x", "count": 16}]),
        (chat("gpt-oss-120b", 2), [{"accelerator": "m3 ultra 80c", "count": 3}]),
        (QLORA, FOUR_A6000),
    ],
)
def test_owned_hardware_of_every_kind_is_sized(client: TestClient, workload: Any, inventory: Any) -> None:
    answer = answered(client, workload, inventory, inventory="only")
    (best,) = answer["recommendations"]
    assert best["deployment"]["offer"]["provider"] == "inventory"
    identity = answer["id"]
    bill = client.get(f"/recommendations/{identity}/bill-of-materials").json()
    assert bill["lines"][0]["line_total"] == 0
    assert bill["lines"][0]["description"].endswith("(already yours)")
    assert {line["kind"] for line in bill["lines"]} <= {"compute", "hosting", "power", "storage"}


def test_an_inventory_that_is_too_small_gives_the_reason_and_hardware_for_sale(client: TestClient) -> None:
    two = [{"accelerator": "rtx 4090", "count": 2}]
    answer = answered(client, chat("deepseek-v3"), two)
    assert "NVIDIA GeForce RTX 4090 24GB needs" in answer["warnings"][0]["text"]
    assert answer["warnings"][0]["code"] == "inventory"
    assert all(r["deployment"]["offer"]["provider"] != "inventory" for r in answer["recommendations"])
    alone = answered(client, chat("deepseek-v3"), two, inventory="only")
    assert alone["recommendations"] == []
    assert [r["accelerator"] for r in alone["rejected"]] == ["nvidia-rtx-4090"]


@pytest.mark.parametrize("only", [False, True])
def test_the_cheapest_addition_makes_an_inventory_enough(client: TestClient, only: bool) -> None:
    asked = chat("llama-3.1-70b", 40)
    bought = {"accelerators": ["a6000"], "environments": ["on_prem"], "price_kinds": ["list", "quote", "estimate"]}
    whole = answered(client, asked, [], **bought)["recommendations"][0]
    each_usd = whole["cost"]["purchase_usd"] / whole["deployment"]["total_accelerators"]

    def addition(owned: int, *types: str, each: int = 1, **further: Any) -> str:
        cards = {"accelerator": "a6000", "count": owned, "accelerators_per_machine": each}
        inventory = [cards, {"accelerator": "rtx 3060", "count": 1}]
        limits = {"accelerators": types, **({"inventory": "only"} if only else {})}
        body = {"workload": asked, "inventory": inventory, "constraints": limits, "limit": 1, **further}
        warnings = client.post("/recommend", json=body).json()["warnings"]
        return " ".join(w["text"] for w in warnings if w["code"] == "inventory")

    added = re.search(
        r"Cheapest addition of a type that you own: (\d+) × (.*?), about (.*?) USD .* "
        r"have (\d+) in \d+ machines of (\d+)",
        addition(1),
    )
    assert added is not None
    assert added[2] == "NVIDIA RTX A6000 48GB"
    assert float(added[3].replace(",", "")) == pytest.approx(each_usd * int(added[1]), abs=1)
    assert int(added[4]) == whole["deployment"]["total_accelerators"]
    assert int(added[4]) == 1 + int(added[1])
    assert "Cheapest addition" not in addition(int(added[4]), each=int(added[5]))  # it is enough
    assert "Cheapest addition" not in addition(1, include=[])
    assert addition(1, objective="latency") == addition(1)  # whose fastest fleet is larger
    assert "A6000" not in addition(1, "rtx 3060")  # which the constraints do not allow
    assert "Cheaper" not in addition(1, "a6000", "rtx 3060")
    other = re.search(r"Cheaper: 2 × (.*?), about (.*?) USD, enough for all of it", addition(1))
    assert other is not None
    usd = float(other[2].replace(",", ""))
    assert usd < float(added[3].replace(",", ""))
    if only:
        less = {"pricing_models": ["owned"], "max_purchase_usd": 0.95 * usd}
        longer = answered(client, asked, [], **less)
        assert "assumed_limits_missed" in [
            w["code"] for w in longer["warnings"]
        ]  # one slower machine, which is cheaper


def test_an_addition_counts_machines_like_those_owned(client: TestClient) -> None:
    workload = {
        **chat("llama-3.3-70b"),
        "traffic": {"peak_requests_per_s": 2, "input_tokens": 1500, "output_tokens": 300},
    }

    def owning(count: int) -> Any:
        return answered(client, workload, [{"accelerator": "a6000", "count": count}], inventory="only")

    (added,) = (w["text"] for w in owning(4)["warnings"] if w["code"] == "inventory")
    total = int(added.rpartition(" have ")[2].partition(" in ")[0])
    assert owning(total)["recommendations"][0]["deployment"]["total_accelerators"] == total


def test_an_addition_of_another_type_carries_the_rest_or_all_of_a_load(client: TestClient) -> None:
    tiny = [{"accelerator": "rtx 3060", "count": 1}]

    def added(workload: dict[str, Any], owned: list[dict[str, Any]], **limits: Any) -> str:
        answer = answered(client, workload, owned, inventory="only", **limits)
        assert answer["recommendations"] == []
        return " ".join(w["text"] for w in answer["warnings"] if w["code"] == "inventory")

    assert added(chat("llama-3.1-405b"), tiny).startswith("Cheapest addition: 8 × ")
    assert not added(chat("llama-3.1-405b"), tiny, accelerators=["rtx 3060"])
    rate = chat()
    rate["traffic"] = {**rate["traffic"], "peak_requests_per_s": 14}
    del rate["traffic"]["concurrent_requests"]
    rest = added(rate, [{"accelerator": "a6000", "count": 2}])
    assert re.search(r"for \d+ % of the requests, next to your machines\.$", rest)


AFFORDABLE: dict[str, Any] = {"max_usd_per_hour": 3, "accelerators": ["a6000", "l40s"]}
TWO_TYPES = [{"accelerator": "a6000", "count": 4}, {"accelerator": "l40s", "count": 1}]


@pytest.mark.parametrize(
    ("model", "load", "owned", "limits"),
    [
        ("llama-3.3-70b", {"peak_requests_per_s": 30}, [{"accelerator": "h100 sxm", "count": 8}], {}),
        ("llama-3.1-8b", {"peak_requests_per_s": 14}, TWO_TYPES, {}),
        ("llama-3.1-8b", {"peak_requests_per_s": 14}, TWO_TYPES, {"inventory": "only"}),
        ("llama-3.1-8b", {"concurrent_requests": 600}, TWO_TYPES[:1], AFFORDABLE),
    ],
)
def test_owned_and_further_replicas_carry_a_load_together_at_less_cost(
    client: TestClient, model: str, load: dict[str, Any], owned: list[dict[str, Any]], limits: dict[str, Any]
) -> None:
    workload = {**chat(model), "slo": {"ttft_ms": 2000, "tpot_ms": 100}}  # left open, they would be longer here
    lengths = {name: workload["traffic"][name] for name in ("input_tokens", "output_tokens")}
    answer = answered(client, {**workload, "traffic": {**load, **lengths}}, owned, **limits)
    fleet, first = answer["mixed_fleet"], answer["recommendations"][:1]
    assert answer["summary"].startswith(fleet["text"])
    groups = fleet["groups"]
    assert sum(g["share"] for g in groups) == pytest.approx(1, abs=1e-5)
    assert fleet["usd_per_hour"] == pytest.approx(sum(g["usd_per_hour"] for g in groups), rel=1e-5)
    assert fleet["usd_per_hour"] <= limits.get("max_usd_per_hour", 1e9)
    names = {"a6000": "nvidia-rtx-a6000", "l40s": "nvidia-l40s", "h100 sxm": "nvidia-h100-sxm5-80gb"}
    counts = {names[entry["accelerator"]]: entry["count"] for entry in owned}
    mine = {g["deployment"]["accelerator"]: g["deployment"]["total_accelerators"] for g in groups if g["owned"]}
    assert mine == counts  # all that is owned, and no more
    assert all(g["purchase_usd"] == 0 for g in groups if g["owned"])
    if first:
        saved = 1 - fleet["usd_per_hour"] / first[0]["cost"]["usd_per_hour"]
        assert fleet["saves_share"] == pytest.approx(saved, abs=1e-4)
        assert saved > 0
    ((name, peak),) = load.items()
    if name == "peak_requests_per_s":
        assert fleet["requests_per_s_capacity"] >= peak
    check_papers(client, answer["id"], fleet)
    most = max(groups, key=lambda group: group["share"])["deployment"]
    assert answer["verification"]["accelerator"] == most["accelerator"]
    after = {each["outcome"]: each["total_accelerators"] for each in answer["verification"]["after"]}
    assert after["slower"] >= after["as_predicted"] == most["total_accelerators"]
    if first and fleet["saves_share"] > 0.05:
        standing = client.get(f"/recommendations/{answer['id']}/standing").json()
        assert standing["cheaper"]["rank"] == 0
        assert standing["cheaper"]["usd_per_hour"] == pytest.approx(fleet["usd_per_hour"], abs=0.01)
    for group in groups:
        if not group["owned"]:  # judged again with its share of the load, it gives the same numbers
            traffic = {**lengths, name: round(peak * group["share"], 4 if name == "peak_requests_per_s" else None)}
            body = {"workload": {**workload, "traffic": traffic}, "deployment": group["deployment"]}
            again = client.post("/estimate", json=body).json()
            assert again["cost"]["usd_per_hour"] == pytest.approx(group["usd_per_hour"], rel=1e-4)
            capacity = again["performance"]["requests_per_s_capacity"]
            assert capacity == pytest.approx(group["requests_per_s_capacity"], rel=1e-3)


def check_papers(client: TestClient, identity: str, fleet: dict[str, Any]) -> None:
    """The bill and the deployment files of a mixed fleet cover all of its groups, the owned ones without a price."""
    groups, at = fleet["groups"], f"/recommendations/{identity}"
    bill = client.get(f"{at}/bill-of-materials?rank=0").json()
    owned = [line for line in bill["lines"] if line.get("owned")]
    assert len(owned) == sum(group["owned"] for group in groups)
    assert all(line["line_total"] == 0 and "already yours" in line["description"] for line in owned)
    if not fleet["purchase_usd"]:
        paid = [line for line in bill["lines"] if line.get("line_total")]
        monthly = sum(line["line_total"] / line["term_months"] for line in paid)
        assert monthly == pytest.approx(730 * fleet["usd_per_hour"], rel=1e-3)
    standing = client.get(f"{at}/standing?rank=0").json()
    assert standing["holds"] and standing["plan"] == standing["today"]
    assert (standing["plan"]["rank"], standing["plan"]["usd_per_hour"]) == (0, round(fleet["usd_per_hour"], 2))
    machines = client.post(f"{at}/reprice?rank=0").json()["machines"]
    same = machines.get("now", machines["then"]) == machines["then"]
    assert same and ("yours" in machines["text"] or machines["text"].endswith("USD, then and today."))
    memo = client.get(f"{at}/bill-of-materials?rank=0&format=html")
    assert "already yours" in memo.text
    assert "<p>Serving " in memo.text
    files = client.get(f"{at}/deployment?rank=0&target=kubernetes").json()["files"]
    router = files[0]["text"]
    weights = {name: int(weight) for name, weight in re.findall(r"server (.+)-0:\d+ weight=(\d+);", router)}
    assert [weight / 1e4 for weight in weights.values()] == pytest.approx([g["share"] for g in groups], abs=1e-4)
    assert {file["name"].partition("/")[0] for file in files[1:]} == set(weights)
    manifests = [file["text"] for file in files if file["name"].endswith(".yaml")]
    assert [text.count(f"-{name}") > 0 for name, text in zip(weights, manifests, strict=True)] == [True] * len(groups)


def test_groups_are_combined_for_cost_and_share_all_limits(client: TestClient) -> None:
    workload = chat()
    workload["traffic"] = {**workload["traffic"], "peak_requests_per_s": 14}
    del workload["traffic"]["concurrent_requests"]
    body = {"workload": workload, "inventory": TWO_TYPES, "limit": 1, "include": [], "economics": {"country": "DE"}}

    def owned_types(**change: Any) -> set[str]:
        fleet = client.post("/recommend", json={**body, **change}).json().get("mixed_fleet", {"groups": []})
        return {group["deployment"]["accelerator"] for group in fleet["groups"] if group["owned"]}

    both = {"nvidia-rtx-a6000", "nvidia-l40s"}
    assert owned_types() == owned_types(constraints={"max_power_kw": 3.2, "max_carbon_kg": 2000}) == both
    assert owned_types(constraints={"max_power_kw": 2.0}) == {"nvidia-l40s"}
    assert owned_types(constraints={"max_carbon_kg": 500}) < both
    assert not owned_types(objective="latency")


def test_more_than_the_inventory_holds_is_never_used(client: TestClient) -> None:
    sixteen, enough = [{"accelerator": "h100 sxm", "count": 16}], []
    for rate in (1, 10, 20, 40, 80, 160):
        workload = chat("llama-3.3-70b")
        workload["traffic"] = {**workload["traffic"], "peak_requests_per_s": rate}
        del workload["traffic"]["concurrent_requests"]
        answer = answered(client, workload, sixteen, inventory="only")
        enough.append(bool(answer["recommendations"]))
        if enough[-1]:
            assert answer["recommendations"][0]["deployment"]["total_accelerators"] <= 16
        else:
            (rejected,) = answer["rejected"]
            assert rejected["text"].endswith("accelerators; your inventory has 16.")
    assert enough == sorted(enough, reverse=True)
    assert set(enough) == {True, False}


LONG_PROMPTS = {
    "phase": "inference",
    "model": "deepseek-v3",
    "traffic": {"peak_requests_per_s": 8, "input_tokens": 6000, "output_tokens": 500},
    "slo": {"ttft_ms": 4000, "tpot_ms": 40},
}


def test_two_pools_use_no_more_of_each_type_than_is_owned_and_stay_yours(client: TestClient) -> None:
    owned = [{"system": "dgx b200", "count": 1}, {"system": "dgx h200", "count": 2}]
    answer = answered(client, LONG_PROMPTS, owned, inventory="only")
    (best,) = answer["recommendations"]
    pools = best["deployment"]["pools"].values()
    assert {(p["accelerator"], p["nodes"]) for p in pools} == {
        ("nvidia-b200-sxm-180gb", 1),
        ("nvidia-h200-sxm-141gb", 2),
    }
    assert "(yours)" in answer["summary"]
    assert answer["warnings"][0]["text"].startswith("The first option uses your whole inventory: 1 machine with 8 ×")
    bill = client.get(f"/recommendations/{answer['id']}/bill-of-materials").json()
    assert [line["description"] for line in bill["lines"] if "DGX" in line["description"]]


def test_an_answer_says_which_machines_stay_free(client: TestClient) -> None:
    owned = [{"system": "dgx h100", "count": 2}, {"accelerator": "l4", "count": 3}]
    answer = answered(client, chat(), owned)
    text = answer["warnings"][0]["text"]
    assert text.endswith("uses 1 machine with 3 × NVIDIA L4 24GB. Not used: 2 machines with 8 × NVIDIA H100 SXM5 80GB.")
    assert answer["considered"]["accelerators"] == 2
    assert answer["rejected_by_code"] == {}


def test_a_run_that_stays_on_one_of_several_machines_says_why(client: TestClient) -> None:
    workload = {**QLORA, "method": "full", "model": "llama-3.1-8b", "training_tokens": 1e9}
    owned = {"accelerator": "a100 80gb sxm", "count": 32}
    alone = answered(client, workload, [owned])["warnings"][0]["text"]
    assert alone.endswith("The run stays on one machine: state `network_gbit_s` in the inventory to consider several.")
    linked = answered(client, workload, [{**owned, "network_gbit_s": 800}])["warnings"][0]["text"]
    assert "stays on one machine" not in linked


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_host_of_an_owned_rack_starts_its_part(client: TestClient, engine: str) -> None:
    rack = [{"system": "gb200-nvl72", "count": 1}]
    answer = answered(client, chat("llama-3.1-405b", 64), rack, engines=[engine])
    best = answer["recommendations"][0]["deployment"]
    hosts = best["accelerators_per_replica"] // 4
    assert hosts > 1
    assert f"--nnodes {hosts} " in answer["verification"]["command"]
    made = client.get(f"/recommendations/{answer['id']}/deployment?target=slurm").json()
    assert f"#SBATCH --nodes={hosts}\n" in made["files"][0]["text"]


def test_an_inventory_that_the_constraints_exclude_is_refused_or_explained(client: TestClient) -> None:
    body = {"workload": chat(), "inventory": FOUR_A6000, "constraints": {"vendors": ["amd"], "inventory": "only"}}
    problem = answer_of(client.post("/recommend", json=body), 422)
    excluded = "`vendors` in the constraints excludes all hardware of the inventory (NVIDIA RTX A6000 48GB)."
    assert problem["detail"].startswith(excluded)
    answer = answered(client, chat(), FOUR_A6000, vendors=["amd"])
    assert answer["warnings"][0]["text"].startswith(f"Your inventory is left out: {excluded}")


def test_what_would_help_counts_no_more_than_is_owned(client: TestClient) -> None:
    workload = chat("llama-3.3-70b")
    workload["traffic"] = {"peak_requests_per_s": 10, "input_tokens": 4000, "output_tokens": 500}
    workload["slo"] = {"ttft_ms": 3000, "tpot_ms": 60}

    def effects(own: int) -> list[dict[str, str]]:
        owned = [{"accelerator": "h100 sxm", "count": own}, {"accelerator": "mi300x", "count": 24}]
        answer = answered(client, workload, owned, inventory="only", vendors=["amd"])
        assert answer["summary"].endswith("AMD Instinct MI300X needs 32 accelerators; your inventory has 24.")
        effects: list[dict[str, str]] = answer["sensitivity"]
        return effects

    sixteen = [{"accelerator": "h100 sxm", "count": 16}]
    (best,) = answered(client, workload, sixteen, inventory="only")["recommendations"]
    found = effects(16)
    (enough,) = [effect for effect in found if effect["change"] == "allow other accelerators"]
    rest = [effect for effect in found if effect is not enough]
    cost = f"{best['cost']['usd_per_hour']:.2f} USD/h"  # of operation alone: nothing is bought
    assert enough["effect"] == f"feasible with 16 × NVIDIA H100 SXM5 80GB ({cost})"
    assert {"raise tpot_ms (now 60)", "lower the confidence to 50 %"} <= {effect["change"] for effect in rest}
    assert effects(8) == rest


def test_fully_used_hardware_is_compared_with_4_bit_weights(client: TestClient) -> None:
    """The stated figures are those of the request with these formats, and nothing is compared where they are named."""
    workload = chat("llama-3.3-70b-instruct", 8)
    workload["traffic"] |= {"input_tokens": 2000, "output_tokens": 400}
    answer = answered(client, workload, FOUR_A6000)
    first = answer["recommendations"][0]
    assert first["deployment"]["weight_format"] == "bf16"
    (trade,) = (each for each in answer["sensitivity"] if " weights with " in each["change"])
    named = {"weight_formats": ["int4-awq", "int4-gptq"]}
    body = {"workload": workload, "inventory": FOUR_A6000, "constraints": named, "objective": "latency"}
    other = answer_of(client.post("/recommend", json=body))
    assert trade["change"].startswith("INT4-")
    took, takes = (each["recommendations"][0]["performance"]["e2e_ms"]["p50"] / 1e3 for each in (answer, other))
    assert takes < 0.9 * took
    assert f"median request {takes:.1f} instead of {took:.1f} s; check accuracy" in trade["effect"]
    assert "same hardware" in trade["effect"]
    assert not any(" weights with " in each["change"] for each in other["sensitivity"])


def test_prices_of_owned_hardware_are_not_varied(client: TestClient) -> None:
    owned = [{"accelerator": name, "count": 1, "usd_per_machine": usd} for name, usd in (("a6000", 9e3), ("l40s", 1e4))]
    answer = answered(client, chat(in_flight=2), owned, inventory="only")
    assert len(answer["recommendations"]) == 2
    assert not [effect for effect in answer["sensitivity"] if "off the price" in effect["change"]]


@pytest.mark.slow
def test_changes_of_an_owned_question_are_those_of_its_own_hardware(client: TestClient) -> None:
    owned = [{"accelerator": "a6000", "count": 1}, {"accelerator": "l40s", "count": 4}]
    answer = answered(client, chat(in_flight=8), owned, inventory="only")
    found = sensitivity_of(client, answer)
    assert found["first"] == "nvidia-rtx-a6000"
    assert {flip["first"] for flip in found["flips"]} <= {"nvidia-l40s", "nothing"}
    assert "tpot_ms" in {flip["knob"] for flip in found["flips"]}
    assert all(" lies between " not in flip["text"] for flip in found["flips"])
    assert not [each for each in (*found["flips"], *found["holds"]) if each["knob"] == "price"]


def test_owned_machines_are_not_priced_again_or_estimated_as_if_for_sale(client: TestClient) -> None:
    answer = answered(client, chat(), FOUR_A6000)
    again = client.post(f"/recommendations/{answer['id']}/reprice").json()
    assert again["machines"]["text"].startswith("These machines are yours")
    assert not again["today"]["changed"]
    body = {"workload": chat(), "deployment": answer["recommendations"][0]["deployment"]}
    assert answer_of(client.post("/estimate", json=body), 422)["errors"][0]["pointer"] == "#/deployment/offer/provider"


def test_ignored_inventory_changes_nothing(client: TestClient) -> None:
    body: dict[str, Any] = {"workload": chat(), "constraints": {"accelerators": ["nvidia-l40s"]}}
    plain = client.post("/recommend", json=body).json()
    ignored = {**body, "inventory": FOUR_A6000, "constraints": {**body["constraints"], "inventory": "ignore"}}
    other = client.post("/recommend", json=ignored).json()
    assert plain["recommendations"] == other["recommendations"]


def test_a_price_that_counts_is_spread_over_the_horizon(client: TestClient) -> None:
    sunk, booked = (
        answered(client, chat(), [{"accelerator": "l40s", "count": 4, **price}], inventory="only")
        for price in ({}, {"usd_per_machine": 40_000})
    )
    more = booked["recommendations"][0]["cost"]["usd_per_hour"] - sunk["recommendations"][0]["cost"]["usd_per_hour"]
    assert more == pytest.approx(40_000 / (36 * 730) + 40_000 * 0.05 / 8760, rel=1e-3)  # with maintenance


def test_licenses_that_are_owned_are_on_no_bill(client: TestClient) -> None:
    for licences in ([], ["nvidia ai enterprise"]):
        owned = [{"accelerator": "h100 sxm", "count": 8, "licences": licences}]
        answer = answered(client, chat(), owned, engines=["nim"])
        bill = client.get(f"/recommendations/{answer['id']}/bill-of-materials").json()
        assert any(line["kind"] == "licence" for line in bill["lines"]) != bool(licences)
        assert any(w["code"] == "license_not_included" for w in answer["warnings"]) != bool(licences)


def test_installed_machines_need_no_racks_and_no_network(client: TestClient) -> None:
    (best,) = answered(client, LONG_RUN, [{"system": "dgx h100", "count": 4, "usd_per_machine": 100_000}])[
        "recommendations"
    ]
    assert best["deployment"]["nodes"] > 1
    assert best["cost"]["purchase_usd"] == 100_000 * best["deployment"]["nodes"]
    assert not {part["what"] for part in best["cost"]["parts"]} & {"network_gbit_per_s", "rack_kw"}


def test_discounts_of_sellers_leave_owned_machines_alone(client: TestClient) -> None:
    body: dict[str, Any] = {
        "workload": chat(),
        "inventory": [{"accelerator": "l40s", "count": 4, "usd_per_machine": 4e4}],
    }
    discount = {"economics": {"discounts": {"nvidia-l40s": 0.5}}}
    full, other = (client.post("/recommend", json=b).json()["recommendations"][0] for b in (body, body | discount))
    assert full["cost"]["usd_per_hour"] == other["cost"]["usd_per_hour"]


def test_memory_is_that_of_each_host(catalog: Catalog) -> None:
    rack = OwnedHardware("nvidia-gb200-186gb", 72, 72, "gb200-nvl72", ram_gib=512.0)
    assert machine_record(rack, catalog, "2026-11-20").ram_bytes == 18 * 512 * 2**30


def test_the_same_question_with_another_inventory_is_another_answer(client: TestClient) -> None:
    ids = {answered(client, chat(), [{"accelerator": "a6000", "count": n}])["id"] for n in (2, 4)}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("entry", "pointer", "text"),
    [
        ({"count": 4}, "#/inventory/0", "name either accelerator or system"),
        ({"accelerator": "a6000", "system": "dgx-h100", "count": 1}, "#/inventory/0", "name either"),
        ({"accelerator": "a7000", "count": 4}, "#/inventory/0/accelerator", "Unknown accelerator"),
        ({"accelerator": "8x h100 sxm", "count": 8}, "#/inventory/0/accelerator", "set the count in count"),
        (
            {"accelerator": "h100 sxm", "count": 12},
            "#/inventory/0/accelerators_per_machine",
            "do not fill machines of 8",
        ),
        ({"accelerator": "dgx h100", "count": 2}, "#/inventory/0/accelerator", "is a machine. Send it as system"),
        ({"accelerator": "a6000", "count": 4, "sunk": False}, "#/inventory/0", "add usd_per_machine"),
        ({"accelerator": "a6000", "count": 4, "sunk": True, "usd_per_machine": 9}, "#/inventory/0", "not sunk"),
        ({"accelerator": "a6000", "count": 0}, "#/inventory/0/count", "greater than or equal to 1"),
    ],
)
def test_wrong_entries_are_refused_in_words(client: TestClient, entry: dict[str, Any], pointer: str, text: str) -> None:
    where, detail = refused(client, [entry])
    assert where == pointer
    assert text in detail


def test_an_inventory_needs_what_its_addition_makes_of_it(client: TestClient) -> None:
    """Formulas find that these cards carry less than their simulation does: a need has one number."""
    traffic = {"peak_requests_per_s": 4, "input_tokens": 1500, "output_tokens": 300}
    slo = {"ttft_ms": 2000, "tpot_ms": 60}
    workload = {"phase": "inference", "model": "llama-3.3-70b-instruct", "traffic": traffic, "slo": slo}
    owned = {"accelerator": "l40s", "count": 12, "accelerators_per_machine": 4}
    answer = answered(client, workload, [owned], inventory="only")
    whole = answer["summary"] + " ".join(w["text"] for w in answer["warnings"])
    (need,) = {*re.findall(r"L40S 48GB needs ([\d,]+) accelerators; your inventory has 12", whole)}
    assert re.findall(r"so that you have ([\d,]+) in", whole) == [need]


def test_only_an_inventory_that_is_listed_can_count(client: TestClient) -> None:
    problem = answer_of(client.post("/recommend", json={"workload": chat(), "constraints": {"inventory": "only"}}), 422)
    assert "inventory lists no hardware" in problem["detail"]
    assert problem["errors"][0]["pointer"] == "#/constraints/inventory"


def test_two_kinds_of_machine_of_one_type_are_refused(client: TestClient) -> None:
    two = [{"accelerator": "a6000", "count": 4}, {"accelerator": "a6000", "count": 2, "accelerators_per_machine": 1}]
    assert refused(client, two)[1].startswith("Entries with nvidia-rtx-a6000 describe different machines.")
