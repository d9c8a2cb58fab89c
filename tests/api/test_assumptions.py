"""An answer shows each number that was chosen on the way to it, and none that was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.api.body import MIN_MAGNITUDE
from app.sizing.assumptions import Assumptions
from tests.examples import answer_of, body, body_names

AT_ONCE = 8


def answered(client: TestClient, name: str, **changes: Any) -> dict[str, Any]:
    return answer_of(client.post("/" + name.split("-", maxsplit=1)[0], json={**body(name), **changes}))


def substance(answer: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in answer.items() if k not in ("id", "request", "assumptions")}


def other(field: Field[Any]) -> float:
    """The end of an assumption's range that is not its default."""
    low, high = field.metadata["low"], field.metadata["high"]
    return float(low if field.default != low else high)


@pytest.mark.parametrize(
    "name",
    [
        "recommend-inference-chat-70b",
        "recommend-inference-image-classification",
        "recommend-training-7b-1t-tokens",
        "estimate-7b-64xa100",
    ],
)
def test_assumptions_not_shown_do_not_matter(client: TestClient, name: str) -> None:
    limits = {} if name.startswith("estimate") else {"rejected_limit": 20}
    answer = answered(client, name, **limits)
    shown = {a["name"] for a in answer["assumptions"]}
    unseen = {f.name: other(f) for f in fields(Assumptions) if f.name not in shown}

    def differs(names: Sequence[str]) -> bool:
        changed = answered(client, name, assumptions={each: unseen[each] for each in names}, **limits)
        return substance(changed) != substance(answer)

    # A few at a time, and one by one where a few matter: values without an effect cannot hide one that has an effect.
    for start in range(0, len(unseen), AT_ONCE):
        few = list(unseen)[start : start + AT_ONCE]
        assert not differs(few), [each for each in few if differs([each])]


L8 = "meta-llama/Llama-3.1-8B-Instruct"
SERVICE = {"phase": "inference", "model": L8, "traffic": {"peak_requests_per_s": 3}}
RUN = {"phase": "training", "model": L8, "training_tokens": 1e9}


def whole(client: TestClient, request: dict[str, Any], call: str = "recommend") -> dict[str, Any]:
    """An answer that leaves nothing out for its size."""
    asked = {**request, "rejected_limit": 5} if call == "recommend" else request
    return answer_of(client.post(f"/{call}", json=asked))


def assumptions_of(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {a["name"]: a for a in answer["assumptions"]}


def with_value(request: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with one field more."""
    first, _, rest = path.partition(".")
    return {**request, first: with_value(request.get(first, {}), rest, value) if rest else value}


# A field, the name it is shown under, and its default.
FIELDS = [
    ("economics.pue", "pue", 1.3),
    ("economics.horizon_months", "horizon_months", 36),
    ("economics.electricity_usd_per_kwh", "electricity_usd_per_kwh", 0.12),
    ("constraints.confidence", "confidence", 0.8),
    ("constraints.kv_formats", "kv_formats", ["auto"]),
    ("workload.target_utilization", "target_utilization", 0.9),
    ("workload.slo.percentile", "slo.percentile", 95),
    ("workload.max_context_tokens", "max_context_tokens", 1536),
    ("workload.availability.redundancy", "redundancy", "none"),
    ("workload.traffic.input_tokens", "input_tokens", 512),
    ("workload.traffic.output_tokens", "output_tokens", 256),
    ("workload.traffic.average_requests_per_s", "average_requests_per_s", 1.2),
]
OF_RUNS = [("workload.precision", "precision", "bf16"), ("workload.optimizer", "optimizer", "adamw")]


@pytest.mark.parametrize(
    ("workload", "path", "name", "usual"),
    [(SERVICE, *row) for row in FIELDS] + [(RUN, *row) for row in OF_RUNS],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_default_that_is_spelled_out_is_the_same_answer_and_asked_for(
    client: TestClient, workload: dict[str, Any], path: str, name: str, usual: Any
) -> None:
    plain = {"workload": workload, "constraints": {"vendors": ["nvidia"]}}
    open_, spelled = whole(client, plain), whole(client, with_value(plain, path, usual))
    before, after = assumptions_of(open_)[name], assumptions_of(spelled)[name]
    assert before == {**after, "asked": False, "source": before["source"]}
    assert (after["asked"], after["source"]) == (True, "request")
    assert after["value"] == (", ".join(usual) if isinstance(usual, list) else usual)
    # A stated context is also the longest one that the server of the benchmark accepts.
    ignored = ("id", "request", "assumptions", *(["verification"] if name == "max_context_tokens" else []))
    assert {k: v for k, v in spelled.items() if k not in ignored} == {
        k: v for k, v in open_.items() if k not in ignored
    }


def test_limits_that_are_spelled_out_are_the_same_answer(client: TestClient) -> None:
    plain = {"workload": SERVICE}
    limits = {"ttft_ms": 2000, "tpot_ms": 100}
    open_, spelled = whole(client, plain), whole(client, with_value(plain, "workload.slo", limits))
    for name, value in limits.items():
        for answer, asked in ((open_, False), (spelled, True)):
            shown = assumptions_of(answer)[f"slo.{name}"]
            assert (shown["value"], shown["asked"]) == (value, asked)
    assert open_["recommendations"] == spelled["recommendations"]


@pytest.mark.parametrize("call", ["recommend", "estimate"])
def test_what_the_caller_gave_comes_back_as_given_or_not_at_all(client: TestClient, call: str) -> None:
    request = body("recommend-inference-chat-70b")
    request["workload"]["target_utilization"] = 0.6
    request["economics"] = {"pue": 1.2, "horizon_months": 48}
    request["constraints"] = {"confidence": 0.9}
    if call == "estimate":
        request = {k: request[k] for k in ("workload", "economics", "constraints")}
        request["deployment"] = {"accelerator": "nvidia-h100-sxm5-80gb", "max_batched_tokens": 4096}
    shown = assumptions_of(whole(client, request, call))
    given = {
        "target_utilization": 0.6,
        "pue": 1.2,
        "horizon_months": 48,
        "confidence": 0.9,
        "average_requests_per_s": 4,
        "input_tokens": 1024,
        "output_tokens": 256,
        "slo.ttft_ms": 1000,
        "slo.tpot_ms": 50,
        "slo.percentile": 95,
        "redundancy": "n+1",
    }
    assert {n: shown[n]["value"] for n in given} == given
    assert all(shown[n]["asked"] for n in given)
    unasked = {n for n, a in shown.items() if not a["asked"]}
    assert not unasked & {"default_ttft_ms", "default_input_tokens", "average_to_peak", "busy_hour_factor"}


def test_an_override_is_shown_as_asked_for(client: TestClient) -> None:
    answer = answered(client, "recommend-inference-chat-70b", assumptions={"pue": 1.15})
    pue = assumptions_of(answer)["pue"]
    assert (pue["value"], pue["asked"], pue["source"], pue["range"]) == (1.15, True, "request", [1, 5])


def test_users_show_the_rules_that_made_a_rate_of_them(client: TestClient) -> None:
    shown = assumptions_of(
        whole(client, {"workload": {**SERVICE, "traffic": {"users": {"count": 120, "requests_per_hour_each": 10}}}})
    )
    assert shown["busy_hour_factor"]["value"] == 3
    assert shown["peak_requests_per_s"]["value"] == pytest.approx(1)
    assert shown["average_requests_per_s"]["value"] == pytest.approx(0.4)
    assert not any(shown[n]["asked"] for n in ("busy_hour_factor", "peak_requests_per_s", "average_requests_per_s"))


@pytest.mark.parametrize("name", body_names("recommend") + body_names("estimate"))
def test_every_entry_says_who_chose_it_from_where_and_in_which_range(client: TestClient, name: str) -> None:
    for a in answered(client, name)["assumptions"]:
        assert isinstance(a["asked"], bool)
        assert 0 < len(a["source"]) <= 60, a
        assert a.get("range") is None or not isinstance(a["value"], str), a
        if a.get("range") is not None:
            assert a["range"][0] <= a["value"] <= a["range"][1], a


def up_to(most: float) -> st.SearchStrategy[float]:
    """0, or a number that is not too near to 0 to be read."""
    return st.just(0.0) | st.floats(MIN_MAGNITUDE, most)


# What a request may say, field by field, with the name it is shown under.
SAID: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "economics.pue": ("pue", st.floats(1, 2)),
    "economics.horizon_months": ("horizon_months", st.integers(1, 60)),
    "economics.electricity_usd_per_kwh": ("electricity_usd_per_kwh", up_to(1)),
    "constraints.confidence": ("confidence", st.floats(0.5, 0.95)),
    "workload.target_utilization": ("target_utilization", st.floats(0.1, 1)),
    "workload.availability.redundancy": ("redundancy", st.sampled_from(["none", "n+1", "n+2", "2n"])),
    "workload.max_context_tokens": ("max_context_tokens", st.integers(5000, 9000)),
    "workload.slo.ttft_ms": ("slo.ttft_ms", st.floats(500, 5000)),
    "workload.slo.tpot_ms": ("slo.tpot_ms", st.floats(30, 300)),
    "workload.slo.percentile": ("slo.percentile", st.floats(50, 99)),
    "workload.traffic.input_tokens": ("input_tokens", st.integers(1, 3000)),
    "workload.traffic.output_tokens": ("output_tokens", st.integers(1, 1000)),
    "workload.traffic.average_requests_per_s": ("average_requests_per_s", st.floats(0.01, 1)),
    "assumptions.busy_hour_factor": ("busy_hour_factor", st.floats(1, 20)),
    "assumptions.facility_usd_per_kw_month": ("facility_usd_per_kw_month", up_to(600)),
}
SOME_SAID = st.fixed_dictionaries({}, optional={path: values for path, (_, values) in SAID.items()})


@pytest.mark.slow
@given(said=SOME_SAID, call=st.sampled_from(["recommend", "estimate"]))
def test_of_whatever_is_said_exactly_that_is_asked_for(client: TestClient, said: dict[str, Any], call: str) -> None:
    request: dict[str, Any] = {"workload": SERVICE}
    if call == "estimate":
        request["deployment"] = {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 2}
    for path, value in said.items():
        request = with_value(request, path, value)
    answer = whole(client, request, call)
    shown = assumptions_of(answer)
    given_names = {SAID[path][0]: value for path, value in said.items()}
    times = {"slo.ttft_ms", "slo.tpot_ms"} & given_names.keys()
    assert {n for n, a in shown.items() if a["asked"]} - given_names.keys() == set()
    for name, value in given_names.items():
        asked_for = shown[name]["value"]
        assert asked_for == (value if isinstance(value, str) else pytest.approx(value, rel=1e-5)), name
        assert shown[name]["asked"], name
    assert {n for n in shown if n in ("slo.ttft_ms", "slo.tpot_ms")} == (times or {"slo.ttft_ms", "slo.tpot_ms"})
    if call == "recommend":
        stored = client.get(f"/recommendations/{answer['id']}").json()
        assert stored["request"] == answer["request"] == {**request, "rejected_limit": 5}


def test_a_figure_that_is_spelled_out_is_never_answered_as_chosen(client: TestClient) -> None:
    plain = body("recommend-inference-embeddings")
    for request, asked in ((plain, False), ({**plain, "constraints": {"confidence": 0.8}}, True)):
        (confidence,) = (
            a for a in client.post("/recommend", json=request).json()["assumptions"] if a["name"] == "confidence"
        )
        assert confidence["asked"] is asked
