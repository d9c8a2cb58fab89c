"""What a request leaves open: values to try, the patch of each, and patterns that it has not settled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Constraints, Question
from app.sizing.serving.draft_heads import eagle_head
from app.sizing.whatif.change import Stage
from app.sizing.whatif.parameters import FORMATS, Parameter, Pattern, format_changes, open_patterns, tunable_parameters
from app.sizing.workload import InferenceWorkload, Load, Slo, TrainingWorkload
from tests.examples import CHAT, LLAMA_8B, PRETRAIN


def parameters(
    body: dict[str, Any],
    workload: InferenceWorkload | TrainingWorkload = CHAT,
    runners_up: list[tuple[str, str]] | None = None,
    confidence: float = 0.8,
) -> dict[str, Parameter]:
    question = Question(workload, Constraints(confidence=confidence))
    return {p.label: p for p in tunable_parameters(body, question, runners_up or [])}


def traffic(**fields: Any) -> dict[str, Any]:
    return {"workload": {"traffic": fields}}


@pytest.mark.parametrize(
    ("fields", "unit", "now", "times", "scaled"),
    [
        ({"peak_requests_per_s": 10, "average_requests_per_s": 4}, "requests/s", 10.0, 1.5, (15.0, 6.0)),
        ({"average_requests_per_s": 4.0}, "requests/s", 4.0, 0.25, (1.0,)),
        ({"samples_per_s": 3.0}, "requests/s", 3.0, 2.0, (6.0,)),
        ({"concurrent_requests": 7}, "concurrent requests", 7.0, 1.5, (10,)),
        ({"batch": 1}, "batch", 1.0, 0.25, (1,)),
    ],
)
def test_a_load_is_scaled_in_all_fields_that_state_it(
    fields: dict[str, Any], unit: str, now: float, times: float, scaled: tuple[float, ...]
) -> None:
    load = parameters(traffic(**fields))["load"]
    assert (load.name, load.unit, load.now, load.stage, load.tolerance) == ("load", unit, now, Stage.FLEET, 0.05)
    assert load.steps == ((now / 2, now / 4), (now * 2, now * 4))
    found = load.patch(now * times)["workload"]["traffic"]
    assert found == dict(zip(fields, scaled, strict=True))
    assert [type(value) for value in found.values()] == [
        int if unit in ("concurrent requests", "batch") else float
    ] * len(found)
    assert load.patch_to(now) == {} and load.patch_to(now * times) == load.patch(now * times)


def test_users_are_whole_and_a_workload_without_a_load_has_none_to_vary() -> None:
    load = parameters(traffic(users={"count": 40, "requests_per_hour_each": 6}, peak_requests_per_s=9.0))["load"]
    assert (load.unit, load.now) == ("users", 40.0)
    assert load.patch(33.4)["workload"]["traffic"]["users"] == {"count": 33}
    assert "load" not in parameters(traffic(offline=True))


@pytest.mark.parametrize(
    ("lengths", "mean", "scaled"),
    [
        (800, 800.0, 1200.0),
        ({"mean": 800.0, "p95": 1601.0, "p50": None}, 800.0, {"mean": 1200.0, "p95": 2402.0}),
        ({"min": 100, "max": 301}, 200.5, {"min": 150, "max": 452}),
        ({"values": [100, 300], "weights": [3.0, 1.0]}, 150.0, {"values": [150, 450]}),
    ],
)
def test_lengths_keep_the_form_in_which_they_were_given(lengths: Any, mean: float, scaled: Any) -> None:
    found = parameters(traffic(input_tokens=lengths, output_tokens=200))
    assert set(found) >= {"mean prompt length", "mean answer length"}
    prompt = found["mean prompt length"]
    assert (prompt.name, prompt.now, prompt.unit, prompt.stage) == ("input_tokens", mean, "tokens", Stage.SEARCH)
    patched = prompt.patch(mean * 1.5)["workload"]["traffic"]["input_tokens"]
    assert patched == pytest.approx(scaled) if not isinstance(scaled, dict) else patched == scaled
    for mixed in ("classes", "trace"):
        assert "mean prompt length" not in parameters(traffic(input_tokens=lengths, **{mixed: []}))
    assert "mean prompt length" not in parameters(traffic(input_tokens=0))


def test_latency_limits_are_varied_where_many_are_served() -> None:
    body = traffic(peak_requests_per_s=1)
    found = parameters(body, replace(CHAT, slo=Slo(0.5, 0.025, 9.0, 95.0)))
    assert [found[f"{name} limit"].now for name in ("TTFT", "TPOT", "E2E")] == [500.0, 25.0, 9000.0]
    assert found["TPOT limit"].patch(31.25) == {"workload": {"slo": {"tpot_ms": 31.25}}}
    assert found["TTFT limit"].describe_change(1234.4) == "TTFT limit at 1,234 ms instead of 500 ms"
    assert "E2E limit" not in parameters(body, replace(CHAT, slo=Slo(0.5, 0.025, None, 95.0)))
    alone = replace(CHAT, load=Load.CLOSED, in_flight=1.0, most_personal_in_flight=8.0)
    assert not alone.serves_many and "TTFT limit" not in parameters(body, alone)


def test_a_run_varies_its_size_deadline_and_sequences() -> None:
    fields = {"training_tokens": 1e9, "deadline_days": 14, "sequence_length": 4096, "examples": 3}
    found = parameters({"workload": fields}, PRETRAIN)
    assert set(found) == {"run size", "deadline", "sequence length", "confidence"}
    assert found["deadline"].patch(20.1234) == {"workload": {"deadline_days": 20.12}}
    assert found["sequence length"].patch(5000.4) == {"workload": {"sequence_length": 5000}}
    assert found["run size"].name == "examples" and found["run size"].patch(0.2) == {"workload": {"examples": 1}}
    assert found["deadline"].describe_change(7.0) == "deadline at 7 days instead of 14 days"


@pytest.mark.parametrize(
    ("confidence", "below", "above"),
    [(0.8, (0.65, 0.5), (0.9, 0.95)), (0.5, (), (0.65, 0.8, 0.9, 0.95)), (0.92, (0.9, 0.8, 0.65, 0.5), (0.95,))],
)
def test_confidence_goes_through_those_that_are_offered(
    confidence: float, below: tuple[float, ...], above: tuple[float, ...]
) -> None:
    found = parameters(traffic(), confidence=confidence)["confidence"]
    assert (found.steps, found.now, found.tolerance) == ((below, above), confidence, 0.02)
    assert found.patch(0.87) == {"constraints": {"confidence": 0.87}}
    assert found.describe_change(0.9) == f"confidence at 90 % instead of {confidence * 100:.0f} %"


def test_prices_of_the_two_next_types_fall_unless_a_discount_is_given() -> None:
    behind = [("a", "Type A"), ("b", "Type B"), ("c", "Type C")]
    found = parameters(traffic(), runners_up=behind)
    assert [label for label in found if label.startswith("price")] == ["price of Type A", "price of Type B"]
    price = found["price of Type A"]
    assert (price.now, price.steps, price.stage, price.tolerance) == (1.0, ((0.9, 0.8, 0.65, 0.5),), Stage.PRICE, 0.01)
    assert price.patch(0.8423) == {"economics": {"discounts": {"a": 0.1577}}}
    assert price.describe_change(0.8423) == "15.8 % off the price of Type A"
    given = {**traffic(), "economics": {"discounts": {"a": 0.1}}}
    assert "price of Type A" not in parameters(given, runners_up=behind)


def test_other_sets_of_formats_are_tried() -> None:
    assert [patch["constraints"]["weight_formats"] for _, patch in format_changes(())] == [[*f] for f in FORMATS]
    assert next(text for text, _ in format_changes(("fp16", "bf16"))) == "weights in FP8"


def patterns(
    body: dict[str, Any], workload: InferenceWorkload | TrainingWorkload = CHAT, less: str | None = None
) -> list[str]:
    return [p.name for p in open_patterns(body, Question(workload), lambda _: less)]


def test_patterns_of_a_service_are_those_that_it_left_open() -> None:
    chat = replace(CHAT, model=LLAMA_8B)
    whole: dict[str, Any] = traffic(peak_requests_per_s=10.0, average_requests_per_s=7.5)
    whole["workload"]["model"] = "llama"
    every = ["smaller_model", "cache_prefixes", "defer_bulk", "quantise", "quantise_cache", "spot", "commit"]
    assert patterns(whole, chat, "smaller") == every
    assert patterns(whole, chat) == every[1:]
    by_spec = {"workload": {**whole["workload"], "model": {"parameters_billion": 13}}}
    assert patterns(by_spec, chat, "smaller") == every[1:]

    def without(limits: dict[str, Any], **of_traffic: Any) -> set[str]:
        changed = {"workload": {**whole["workload"], "traffic": {**whole["workload"]["traffic"], **of_traffic}}}
        return {*every[1:]} - {*patterns({**changed, "constraints": limits}, chat)}

    assert without({"weight_formats": ["bf16"]}) == {"quantise"}
    assert without({"kv_formats": ["bf16"]}) == {"quantise_cache"}
    assert without({"pricing_models": ["on_demand"]}) == {"spot", "commit"}
    assert without({"commitment": "1y"}) == {"commit"}
    assert without({}, cached_prefix_fraction=0.2) == {"cache_prefixes"}
    assert without({}, average_requests_per_s=7.6) == without({}, average_requests_per_s=None) == {"defer_bulk"}
    assert without({}, classes=[]) == {"cache_prefixes"}
    assert without({}, peak_requests_per_s=None) == {"defer_bulk"}
    closed = replace(chat, load=Load.CLOSED, in_flight=4.0)
    assert patterns(traffic(concurrent_requests=4), closed) == ["cache_prefixes", "quantise", "quantise_cache", "spot"]
    offline = replace(chat, load=Load.OFFLINE)
    assert patterns(traffic(offline=True), offline) == ["quantise", "quantise_cache", "spot"]


def test_drafting_is_offered_where_a_draft_is_published() -> None:
    body = traffic(peak_requests_per_s=10.0)
    named = replace(LLAMA_8B, name="Qwen/Qwen3-32B")

    def offered(model: ModelArchitecture, limits: dict[str, Any]) -> list[Pattern]:
        found = open_patterns({**body, "constraints": limits}, Question(replace(CHAT, model=model)), lambda _: None)
        return [p for p in found if p.name == "speculative"]

    (eagle,) = offered(named, {})
    asked = eagle.patch["constraints"]["speculative"]
    assert asked["method"] == "eagle" and 0 < asked["acceptance_rate"] < 1
    assert str(eagle_head("Qwen/Qwen3-32B")) in eagle.text and "is an assumption" in eagle.owes
    (own,) = offered(replace(LLAMA_8B, mtp_params=10**8), {})
    assert own.patch["constraints"]["speculative"]["method"] == "mtp" and "MTP layer" in own.text
    assert offered(named, {"speculative": asked}) == offered(LLAMA_8B, {}) == []


def test_each_pattern_patches_what_it_names_and_says_what_it_owes() -> None:
    body = traffic(peak_requests_per_s=10.0, average_requests_per_s=2.0)
    found = {p.name: p for p in open_patterns(body, Question(replace(CHAT, model=LLAMA_8B)), lambda _: None)}
    assert found["defer_bulk"].patch == {"workload": {"traffic": {"peak_requests_per_s": 7.5}}}
    assert found["cache_prefixes"].patch["workload"]["traffic"] == {
        "cached_prefix_fraction": 0.5,
        "shared_prefix_fraction": 0.5,
    }
    assert found["quantise"].patch == {"constraints": {"weight_formats": [*FORMATS[-1]]}}
    assert found["quantise_cache"].patch == {"constraints": {"kv_formats": ["fp8"]}}
    assert (
        found["spot"].patch == {"constraints": {"pricing_models": ["spot"]}} and "spare replicas" in found["spot"].owes
    )
    assert found["commit"].patch == {"constraints": {"commitment": "3y"}} and "full term" in found["commit"].owes


@pytest.mark.parametrize(
    ("fields", "fewer"),
    [
        ({"phase": "fine_tuning", "method": "full"}, ["lora", "spot"]),
        ({"phase": "fine_tuning"}, ["qlora", "spot"]),
        ({"phase": "fine_tuning", "method": "qlora"}, ["spot"]),
        ({"phase": "training"}, ["spot"]),
    ],
)
def test_patterns_of_a_run_train_fewer_parameters(fields: dict[str, Any], fewer: list[str]) -> None:
    assert patterns({"workload": fields}, PRETRAIN) == fewer
    (*_, spot) = open_patterns({"workload": fields}, Question(PRETRAIN), lambda _: None)
    assert "checkpoints" in spot.owes
