"""An upload asks for what it lacks, moves its own answers, and leaves nothing behind when it is deleted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from app.api import measuring
from app.api.measuring import compare_run
from app.api.questions import build_recommend_question
from app.api.schemas.requests import RecommendRequest
from app.catalog.measuring import get_measurement, update_prediction
from app.catalog.snapshot import CatalogStore, LoadedCatalog
from app.command.prepare import prepare_database
from app.db import PUBLIC
from app.sizing.evidence import Setting
from app.sizing.measured import MeasuredFigure, MeasuredStacks, OwnMeasurement
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog
from artefacts.service import DAY
from tests.conftest import copied, serving
from tests.observed.result_files import FILES, LLAMA_BENCH, PLAIN, VLLM

ESTIMATE: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "llama-3.1-8b-instruct",
        "traffic": {"concurrent_requests": 24, "input_tokens": 1024, "output_tokens": 256},
    },
    "deployment": {
        "accelerator": "h100-sxm",
        "total_accelerators": 1,
        "replicas": 1,
        "engine": "vllm",
        "weight_format": "bf16",
        "tensor_parallel": 1,
    },
}
RECOMMEND: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "llama-3.1-8b-instruct",
        "traffic": {"peak_requests_per_s": 10, "input_tokens": 1024, "output_tokens": 256},
    },
    "constraints": {"accelerators": ["h100-sxm", "mi300x"], "engines": ["vllm"]},
}
TRAINING: dict[str, Any] = {
    "workload": {
        "phase": "fine_tuning",
        "model": "llama-3.1-8b-instruct",
        "method": "lora",
        "training_tokens": 1e8,
        "sequence_length": 2048,
        "global_batch_sequences": 32,
    },
    "deployment": {"accelerator": "h100-sxm", "total_accelerators": 8, "framework": "torchtitan"},
}
STACK = {"accelerator": "h100-sxm", "accelerators": 1, "engine_version": "0.30.0", "weight_format": "bf16"}


@pytest.fixture(scope="module")
def service(sqlite_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """An application with a database of its own."""
    url = copied(sqlite_url, tmp_path_factory.mktemp("own") / "own.sqlite3")
    with serving(url) as made:
        yield made


@pytest.fixture
def own(service: TestClient) -> Iterator[TestClient]:
    """The same application; it has no measurement at the end of the test."""
    yield service
    items = service.get("/measurements", params={"limit": 1000}).json()["items"]
    for item in items:
        service.delete(f"/measurements/{item['id']}")


def upload(client: TestClient, content: object, **parameters: Any) -> Any:
    text = content if isinstance(content, str) else json.dumps(content)
    kind = {"content-type": "application/json" if text[:1] in "{[" else "text/plain"}
    return client.post("/measurements", params=parameters, content=text.encode(), headers=kind)


def answers(client: TestClient) -> list[bytes]:
    """Bodies of two estimates and a recommendation."""
    asked = (("/estimate", ESTIMATE), ("/estimate", TRAINING), ("/recommend", RECOMMEND))
    return [client.post(path, json=body).content for path, body in asked]


def test_a_measurement_moves_its_own_estimate_and_delete_gives_the_former_bytes(own: TestClient) -> None:
    before = answers(own)
    predicted = json.loads(before[0])["performance"]
    figures = {n: predicted[n] for n in ("output_tokens_per_s",)}
    slow = PLAIN | {"output_tokens_per_s": figures["output_tokens_per_s"] / 1.3}
    slow = {k: v for k, v in slow.items() if k not in ("ttft_ms", "tpot_ms", "completed_requests")}
    first = upload(own, slow)
    assert first.status_code == 201, first.text
    identity = first.json()["measurements"][0]["id"]
    moved = own.post("/estimate", json=ESTIMATE).json()
    speed = moved["performance"]
    assert speed["output_tokens_per_s"] == pytest.approx(slow["output_tokens_per_s"], rel=0.05)
    assert speed["basis"] == "measured"
    assert identity in moved["nearest_measurements"][0]["source"]
    assert any(identity in r["text"] for r in moved["explanation"] if r["code"] == "own_measurement")
    interval, former = speed["interval"], predicted["interval"]
    assert interval["high"] / interval["low"] < 0.8 * former["high"] / former["low"]
    recommended, unmoved = own.post("/recommend", json=RECOMMEND).json(), json.loads(before[2])
    assert recommended["id"] != unmoved["id"]
    assert amd_option(recommended) == amd_option(unmoved)
    alone = RECOMMEND | {"constraints": {"accelerators": ["mi300x"], "engines": ["vllm"]}}
    unrelated = ask_anew(own, alone)  # the measurement is of another vendor's accelerator
    assert own.delete(f"/measurements/{identity}").status_code == 204
    assert answers(own) == before
    assert ask_anew(own, alone) == unrelated


def ask_anew(client: TestClient, body: dict[str, Any]) -> bytes:
    """A recommendation that is computed, not one that is stored."""
    stored = f"/recommendations/{client.post('/recommend', json=body).json()['id']}"
    version = client.get(f"{stored}/status").headers["ETag"]
    assert client.delete(stored, headers={"If-Match": version}).status_code == 204
    return client.post("/recommend", json=body).content


def amd_option(answer: Any) -> Any:
    """Performance of the option on another maker's accelerator."""
    options = [r for r in answer["recommendations"] if r["deployment"]["accelerator"].startswith("amd")]
    return [{k: v for k, v in r["performance"].items() if k != "load_curve"} for r in options]


def test_a_second_upload_is_the_same_measurement_and_order_does_not_matter(own: TestClient) -> None:
    other = PLAIN | {"concurrent_requests": 8, "output_tokens_per_s": 800, "ttft_ms": 150, "tpot_ms": 9.4}
    ids = [upload(own, content).json()["measurements"][0]["id"] for content in (PLAIN, other)]
    both = answers(own)
    again = upload(own, json.dumps(PLAIN, indent=1))
    assert (again.status_code, again.json()["stored"]) == (200, False)
    assert again.json()["measurements"][0]["id"] == ids[0]
    assert answers(own) == both
    for identity in ids:
        own.delete(f"/measurements/{identity}")
    for content in (other, PLAIN):
        upload(own, content)
    assert answers(own) == both
    listed = own.get("/measurements", params={"limit": 1}).json()
    rest = own.get("/measurements", params={"cursor": listed["next_cursor"]}).json()
    assert sorted(ids) == [item["id"] for item in (*listed["items"], *rest["items"])]


def test_a_training_run_moves_the_step_time_and_no_service(own: TestClient) -> None:
    service = own.post("/recommend", json=RECOMMEND).content
    before = own.post("/estimate", json=TRAINING).json()["performance"]
    run = {
        "model": "llama-3.1-8b-instruct",
        "accelerator": "h100-sxm",
        "accelerators": 8,
        "engine": "torchtitan",
        "engine_version": "0.9",
        "method": "lora",
        "sequence_length": 2048,
        "global_batch_sequences": 32,
        "step_time_s": 1.3 * before["step_time_s"],
    }
    stored = upload(own, run)
    assert stored.status_code == 201, stored.text
    assert ask_anew(own, RECOMMEND) == service
    after = own.post("/estimate", json=TRAINING).json()["performance"]
    assert after["step_time_s"] == pytest.approx(1.3 * before["step_time_s"], rel=0.05)
    assert after["basis"] == "measured"


def test_an_upload_asks_for_exactly_what_the_file_lacks(client: TestClient) -> None:
    lacking = upload(client, VLLM)
    assert lacking.status_code == 422
    assert lacking.headers["content-type"] == "application/problem+json"
    problem = lacking.json()
    assert problem["type"] == "/problems/incomplete-measurement"
    assert problem["missing"] == ["accelerator", "accelerators", "engine_version", "weight_format"]
    assert [e["pointer"] for e in problem["errors"]] == [f"query/{name}" for name in problem["missing"]]
    complete = upload(client, VLLM, dry_run=True, **STACK)
    assert complete.status_code == 200, complete.text
    assert complete.json()["stored"] is False
    figures = {f["quantity"]: f["measured"] for f in complete.json()["measurements"][0]["figures"]}
    assert figures == {"output_tokens_per_s": 1718.0, "tpot_ms": 12.4, "ttft_ms": 460.0}
    assert client.get("/measurements").json()["items"] == []


COMPLETED: dict[str, dict[str, Any]] = {
    "sglang": {"model": "llama-3.1-8b-instruct", **STACK, "engine_version": "0.5.2"},
    "screen": {**STACK, "accelerators": 2},
    "vllm-latency": {
        "model": "llama-3.1-8b-instruct",
        **STACK,
        "concurrent_requests": 8,
        "input_tokens": 32,
        "output_tokens": 128,
    },
    "vllm-throughput": {"model": "llama-3.1-8b-instruct", **STACK, "output_tokens": 128},
    "guidellm": {"model": "llama-3.1-8b-instruct", "engine": "vllm", **STACK},
    "aiperf": {"engine": "vllm", "engine_version": "0.30.0", "weight_format": "bf16"},
    "genai-perf": {"engine": "vllm", "engine_version": "0.30.0", "weight_format": "bf16"},
    "inference-perf": {"model": "llama-3.1-8b-instruct", "engine": "vllm", **STACK},
    "report": {"accelerator": "h100-sxm", "weight_format": "fp8"},
    "llama-bench": {"model": "llama-3.1-8b-instruct"},
    "llama-table": {"model": "llama-3.1-8b-instruct", "accelerator": "rtx 4090", "accelerators": 1},
    "mlperf": {"model": "llama-3.1-8b-instruct", "engine": "vllm", "input_tokens": 900, **STACK},
    "plain": {},
    "trainer": {
        "model": "llama-3.1-8b-instruct",
        "accelerator": "h100-sxm",
        "accelerators": 8,
        "engine_version": "0.2",
        "method": "full",
        "sequence_length": 2048,
        "global_batch_sequences": 32,
    },
    "engine": {"model": "llama-3.1-8b-instruct", **STACK, "input_tokens": 1024, "output_tokens": 256},
}


@pytest.mark.parametrize("name", COMPLETED)
def test_every_tools_file_can_be_completed_and_compared(client: TestClient, name: str) -> None:
    response = upload(client, FILES[name][1], dry_run=True, **COMPLETED[name])
    assert response.status_code == 200, response.text
    for measurement in response.json()["measurements"]:
        assert measurement["run"]["format"] == FILES[name][0]
        assert measurement["figures"]
        assert all(f["predicted"] > 0 for f in measurement["figures"])


REFUSED: dict[str, tuple[object, dict[str, Any], int, str]] = {
    "no text": ("\udcff", {}, 422, "unusable-measurement"),
    "no benchmark": ({"a": 1}, {}, 422, "unreadable-text"),
    "failing": (VLLM | {"failed": 50}, STACK, 422, "unusable-measurement"),
    "another card": (FILES["aiperf"][1], {"accelerator": "mi300x"}, 422, "unusable-measurement"),
    "unknown card": (VLLM, STACK | {"accelerator": "h900"}, 404, "unknown-accelerator"),
    "unknown model": (VLLM | {"model_id": "gpt-900"}, STACK, 404, "unknown-model"),
    "unknown engine": (VLLM | {"backend": "x"}, STACK | {"engine": "warp"}, 422, "unknown-name"),
    "too large a model": (PLAIN | {"model": "llama-3.1-405b-instruct"}, {}, 422, "conflict"),
    "wrong parameter": (VLLM, STACK | {"accelerators": 0}, 422, "invalid-request"),
    "unknown parameter": (VLLM, {"cards": 1}, 422, "invalid-request"),
    "odd degrees": (PLAIN | {"tensor_parallel": 3}, {}, 422, "conflict"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_compared_is_refused_as_a_problem(client: TestClient, why: str) -> None:
    content, parameters, status, code = REFUSED[why]
    if isinstance(content, str) and why == "no text":
        response = client.post("/measurements", content=b"\xff\xfe{}", headers={"content-type": "text/plain"})
    else:
        response = upload(client, content, **parameters)
    assert (response.status_code, response.json()["type"]) == (status, f"/problems/{code}"), response.text
    assert response.json()["detail"]


def test_a_repeated_upload_or_deletion_with_one_key_has_one_effect(own: TestClient) -> None:
    headers = {"Idempotency-Key": "upload-1", "content-type": "application/json"}
    first, again = (own.post("/measurements", content=json.dumps(PLAIN), headers=headers) for _ in "12")
    assert (first.status_code, again.status_code, again.headers["idempotency-replayed"]) == (201, 201, "true")
    assert again.content == first.content
    path = f"/measurements/{first.json()['measurements'][0]['id']}"
    assert [own.delete(path, headers={"Idempotency-Key": "delete-1"}).status_code for _ in "12"] == [204, 204]
    assert own.delete(path).status_code == 404
    other = own.post("/measurements", content=json.dumps(PLAIN | {"ttft_ms": 470}), headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")


def test_the_same_content_with_other_parameters_is_a_conflict(own: TestClient) -> None:
    stored = upload(own, VLLM, **STACK).json()["measurements"][0]["id"]
    other = upload(own, VLLM, **STACK | {"weight_format": "fp8"})
    assert (other.status_code, other.json()["type"]) == (409, "/problems/other-measurement")
    assert other.json()["id"] == stored
    assert own.get(f"/measurements/{stored}").json()["run"]["weight_format"] == "bf16"


def test_two_that_disagree_are_both_named(own: TestClient) -> None:
    one, two = PLAIN, PLAIN | {"output_tokens_per_s": 1200, "tpot_ms": 17.5, "ttft_ms": 650}
    first, second = (upload(own, each).json() for each in (one, two))
    ids = {each["measurements"][0]["id"] for each in (first, second)}
    assert first["notes"] == []
    assert any(all(i in note for i in ids) for note in second["notes"])
    shown = own.post("/estimate", json=ESTIMATE).json()
    assert any(all(i in r["text"] for i in ids) for r in shown["explanation"] if r["code"] == "measurements_disagree")


def test_a_diagnosis_expects_what_was_predicted_without_measurements(own: TestClient) -> None:
    observed = {"observed": {"service": {"output_tokens_per_s": 1700}}}
    before = own.post("/diagnose", json=ESTIMATE | observed).content
    assert upload(own, PLAIN).status_code == 201
    assert own.post("/diagnose", json=ESTIMATE | observed).content == before


def test_a_new_catalog_compares_stored_runs_before_it_answers(own: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = upload(own, PLAIN).json()["measurements"][0]["id"]
    moved, state = own.post("/estimate", json=ESTIMATE).json(), own.app.state  # type: ignore[attr-defined]
    with state.sessions() as session, session.begin():
        stored = get_measurement(session, PUBLIC, identity).measurement
        wrong = replace(stored, figures=(MeasuredFigure("tpot_s", 1.0, 1.0),))
        update_prediction(session, PUBLIC, wrong, "an earlier catalog")
    newer = replace_loaded(state.catalog_store)
    compared = []

    def compare(run: object, index: object, store: CatalogStore) -> OwnMeasurement:
        compared.append(store.published() is index)
        return compare_run(run, index, store)  # type: ignore[arg-type]

    monkeypatch.setattr(measuring, "compare_run", compare)
    monkeypatch.setattr("app.catalog.snapshot.load_newest", lambda *_: newer)
    state.catalog_store._load_newest()
    assert compared == [True]  # before the first question, against the newer catalog alone
    with state.sessions() as session:
        assert get_measurement(session, PUBLIC, identity).measurement == stored
    assert own.post("/estimate", json=ESTIMATE).json() == moved
    assert compared == [True]
    with state.sessions() as session, session.begin():
        update_prediction(session, PUBLIC, wrong, "an earlier engine")
    prepare_database(str(state.sessions.kw["bind"].url))
    with state.sessions() as session:
        assert get_measurement(session, PUBLIC, identity).measurement == stored


def replace_loaded(store: CatalogStore) -> LoadedCatalog:
    """The loaded catalog as another object, as a newer version is."""
    loaded = store._loaded
    assert loaded is not None
    return replace(loaded, catalog_index=loaded.catalog_index.with_catalog(loaded.catalog_index.catalog))


def test_without_a_database_the_last_known_measurements_apply(own: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(own, PLAIN)
    moved, state = own.post("/estimate", json=ESTIMATE).content, own.app.state  # type: ignore[attr-defined]

    def fail(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("disk I/O error"))

    monkeypatch.setattr(measuring, "list_revision", fail)
    state.measured_catalogs.forget(PUBLIC)
    assert own.post("/estimate", json=ESTIMATE).content == moved


def test_an_unknown_measurement_is_not_found(client: TestClient) -> None:
    path = f"/measurements/meas_{'0' * 28}"
    for response in (client.get(path), client.delete(path)):
        assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-measurement")


def test_a_sweep_is_one_measurement_for_each_load(own: TestClient) -> None:
    response = upload(own, LLAMA_BENCH, model="llama-3.1-8b-instruct")
    assert response.status_code == 201, response.text
    assert len({m["id"] for m in response.json()["measurements"]}) == 2


@pytest.mark.slow
def test_five_hundred_measurements_cost_a_recommendation_at_most_a_tenth(catalog_store: CatalogStore) -> None:
    index = catalog_store.published()
    nvidia = [a for a in index.catalog.accelerators if a.vendor == "NVIDIA"]
    runs = []
    for n in range(500):
        kind = nvidia[n % len(nvidia)]
        setting = Setting(
            engine=("vllm", "sglang")[n % 2],
            family=kind.family,
            format_class="fp8",
            accelerator=kind.slug,
            load=("closed", "open")[n % 2],
            params=(8e9, 70e9)[n % 2],
            devices=float(2 ** (n % 4)),
            in_flight=float(1 + n % 64),
            input_tokens=1024.0,
            output_tokens=256.0,
        )
        figures = tuple(MeasuredFigure(name, 1.0 + n / 1e5, 1.0) for name in ("tpot_s", "ttft_s", "tokens_per_s"))
        runs.append(OwnMeasurement(f"meas_{n:04}", "", "", setting, "0.30", figures))
    measured = index.catalog.with_measurements(MeasuredStacks(runs))

    def cpu_s(question: Question, catalog: Catalog) -> float:
        started = time.process_time()
        recommend_hardware(question, catalog)
        return time.process_time() - started

    with_them = without = 0.0
    for rate in (5, 8, 12, 20, 30):  # measurements move answers, and other options take more or fewer simulations
        traffic = RECOMMEND["workload"]["traffic"] | {"peak_requests_per_s": rate}
        asked = json.dumps({"workload": RECOMMEND["workload"] | {"traffic": traffic}})
        request = RecommendRequest.model_validate_json(asked, strict=True)
        question = build_recommend_question(request, index, catalog_store, DAY)
        pairs = [(cpu_s(question, measured), cpu_s(question, index.catalog)) for _ in range(6)]  # in turn
        least = [min(times) for times in zip(*pairs[1:], strict=True)]
        with_them, without = with_them + least[0], without + least[1]
    assert with_them < 1.1 * without
