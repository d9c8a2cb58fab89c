"""Hand-offs in the API: every rank of every answer, single files, and refusals that name a solution."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.schemas.materials import HandoffQuery, HandoffShown
from app.export.handoff.engines import BY_ENGINE
from app.export.handoff.targets import RUN_TARGETS, TARGETS
from tests.api.test_materials import SPLIT

BODIES = Path(__file__).parent / "bodies"
NAMES = (
    "inference-deepseek-v3",
    "inference-chat-70b",
    "inference-embeddings",
    "inference-personal-70b-desktop",
    "training-405b",
    "fine-tuning-70b-qlora",
)
SPREADING = (
    *("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"),
    *("tp-size", "pp-size", "tp_size", "pp_size", "num-shard"),
)
LAUNCHING = ("nproc-per-node", "nnodes")


@pytest.fixture(scope="module")
def answers(client: TestClient) -> dict[str, dict[str, Any]]:
    bodies = {name: json.loads((BODIES / f"recommend-{name}.json").read_text()) for name in NAMES}
    return {name: client.post("/recommend", json=body).json() for name, body in bodies.items()}


def url(answer: dict[str, Any]) -> str:
    return f"/recommendations/{answer['id']}/deployment"


def test_every_rank_is_started_by_its_engine_or_by_slurm(
    client: TestClient, answers: dict[str, dict[str, Any]]
) -> None:
    for answer in answers.values():
        for ranked in answer["recommendations"]:
            engine = ranked["deployment"].get("engine")
            if engine is not None and (engine not in BY_ENGINE or BY_ENGINE[engine].script):
                continue  # a library, whose server takes some work only
            target = "slurm" if engine is None else engine
            sent = client.get(f"{url(answer)}?target={target}&rank={ranked['rank']}")
            assert sent.status_code == 200, sent.json()
            made = HandoffShown.model_validate(sent.json())
            assert {"benchmark.sh"} <= {file.name for file in made.files}
            assert made.rank == ranked["rank"]


def accelerators_started(text: str, d: dict[str, Any]) -> int:
    """The product of the degrees in a hand-off, or of the launcher's counts if the engine gets no degrees."""
    flags = {flag: int(count) for flag, count in re.findall(r"--([a-z_-]+)[ =](\d+)", text)}
    spread = [flags[flag] for flag in SPREADING if flag in flags]
    launched = [flags[flag] for flag in LAUNCHING if flag in flags]
    if spread and "engine" in d:
        return math.prod(spread)
    return math.prod(launched) if launched else d["accelerators_per_replica"]


def test_sequences_fit_the_cache_that_was_found(answers: dict[str, dict[str, Any]]) -> None:
    for name in ("inference-deepseek-v3", "inference-chat-70b"):
        request = answers[name]["request"]["workload"]["traffic"]
        tokens = sum(
            each if isinstance(each, int | float) else each["mean"]
            for each in (request["input_tokens"], request["output_tokens"])
        )
        for ranked in answers[name]["recommendations"]:
            d = ranked["deployment"]
            assert d["max_batch"] * tokens <= ranked["memory"]["kv_cache_tokens"]
            assert (
                d["tensor_parallel"] * d["pipeline_parallel"] * d.get("data_parallel", 1)
                == (d["accelerators_per_replica"])
            )


def test_two_pools_are_started_apart(client: TestClient) -> None:
    answer = client.post("/recommend", json=SPLIT).json()
    engine = answer["recommendations"][0]["deployment"]["engine"]
    pools = answer["recommendations"][0]["deployment"]["pools"]
    made = client.get(f"{url(answer)}?target={engine}").json()
    texts = {file["name"]: file["text"] for file in made["files"]}
    for role, pool in pools.items():
        text = texts[f"{role}.sh"]
        flags = {flag: int(count) for flag, count in re.findall(r"--([a-z_-]+)[ =](\d+)", text)}
        assert pool["tensor_parallel"] in [flags.get(flag) for flag in SPREADING]
        assert pool["max_batch"] in [flags.get(flag) for flag in ("max-num-seqs", "max_batch_size")]
        count = pool["replicas"] + pool["spare_replicas"]
        assert f"# Replicas to start: {count}. Each takes {pool['accelerators_per_replica']} x" in text


def test_a_file_is_sent_as_it_is(client: TestClient, answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["inference-chat-70b"]
    engine = answer["recommendations"][0]["deployment"]["engine"]
    whole = client.get(f"{url(answer)}?target={engine}").json()
    for file in whole["files"]:
        sent = client.get(f"{url(answer)}?target={engine}&file={file['name']}")
        assert sent.text == file["text"]
        assert sent.headers["content-type"].startswith(file["media_type"])
        assert file["name"] in sent.headers["content-disposition"]
    again = client.get(f"{url(answer)}?target={engine}").json()
    assert again == whole


def test_the_command_of_the_verification_is_in_the_benchmark(
    client: TestClient, answers: dict[str, dict[str, Any]]
) -> None:
    answer = answers["inference-chat-70b"]
    verified = answer["verification"]
    rank = next(
        each["rank"]
        for each in answer["recommendations"]
        if each["deployment"]["accelerator"] == verified["accelerator"]
    )
    engine = answer["recommendations"][rank - 1]["deployment"]["engine"]
    text = client.get(f"{url(answer)}?target={engine}&rank={rank}&file=benchmark.sh").text
    load = verified["command"].split("done; ")[1].removesuffix("; kill $!")
    assert load in " ".join(text.replace("\\\n", " ").split())


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ("target=vllm&rank=99", 404, "It has ranks 1 to"),
        ("target=megatron", 422, "Targets that can start it:"),
        ("target=kubernetes&file=nothing.yaml", 404, "Available: "),
        ("target=helm", 422, ""),
        ("target=vllm&rank=0", 404, "no rank 0"),
        ("target=vllm&rank=-1", 422, ""),
        ("target=vllm&engine_version=%24(rm)", 422, ""),
        ("target=vllm&engine_version=0.0.1;x", 422, ""),
        (f"target=vllm&engine_version={'9' * 5000}", 422, ""),
    ],
)
def test_what_cannot_be_handed_off_is_said(
    client: TestClient, answers: dict[str, dict[str, Any]], asked: str, status: int, says: str
) -> None:
    refused = client.get(f"{url(answers['inference-chat-70b'])}?{asked}")
    assert refused.status_code == status
    assert refused.headers["content-type"] == "application/problem+json"
    assert says in refused.json()["detail"]


def test_targets_that_may_be_asked_for_are_those_there_are() -> None:
    schema = HandoffQuery.model_json_schema()["properties"]["target"]
    assert {*schema["anyOf"][0]["enum"]} == {*TARGETS, *RUN_TARGETS}
    assert {*BY_ENGINE} <= {*TARGETS}


def test_an_answer_lists_its_targets_and_all_of_them_start_its_accelerators(
    client: TestClient, answers: dict[str, dict[str, Any]]
) -> None:
    listed: set[str] = set()
    for answer in answers.values():
        for ranked in answer["recommendations"]:
            at, d = f"{url(answer)}?rank={ranked['rank']}", ranked["deployment"]
            made = client.get(at)
            if made.status_code == 422:  # a library without a server
                assert "No target can start" in made.json()["detail"]
                continue
            targets = made.json()["targets"]
            assert made.json()["target"] == targets[0]
            assert not {*BY_ENGINE} & {*targets}
            for target in (*targets, *({d.get("engine")} & {*BY_ENGINE})):
                sent = client.get(f"{at}&target={target}")
                assert sent.status_code == 200, (target, sent.text)
                texts = [file["text"] for file in sent.json()["files"] if file["name"] != "benchmark.sh"]
                if target in TARGETS:
                    assert accelerators_started("\n".join(texts), d) == d["accelerators_per_replica"], (target, d)
            listed.update(targets)
    assert {"shell", "kubernetes", "skypilot", "slurm"} <= listed


RUN = {
    "workload": {
        "phase": "fine_tuning",
        "method": "lora",
        "model": "meta-llama/Llama-3.1-8B",
        "training_tokens": 1e8,
        "deadline_days": 3,
    },
    "constraints": {"engines": ["trl"]},
    "include": [],
}


def test_data_and_checkpoints_of_the_request_are_in_the_files_and_change_no_figure(client: TestClient) -> None:
    plain = client.post("/recommend", json=RUN).json()
    asked = {**RUN, "handoff": {"dataset": "org/it's $(data)", "output": "/data/out", "resume_from": "/data/out/c-1"}}
    filled = client.post("/recommend", json=asked).json()
    assert filled["recommendations"] == plain["recommendations"]
    assert filled["id"] != plain["id"]  # its files differ
    text = client.get(f"{url(filled)}?target=shell&file=train.sh").text
    for name, value in (("DATASET", "org/it's $(data)"), ("OUTPUT_DIR", "/data/out"), ("RESUME_FROM", "/data/out/c-1")):
        assert f"export {name}={shlex.quote(value)}\n" in text
    assert client.get(f"{url(plain)}?target=megatron").status_code == 422


@pytest.mark.parametrize(
    ("handoff", "pointer", "words"),
    [
        ({"dataset": "--help"}, "#/handoff/dataset", "must not start with -"),
        ({"data": "x"}, "#/handoff/data", "Did you mean dataset?"),
        ({"output": ""}, "#/handoff/output", "at least 1 character"),
    ],
)
def test_a_handoff_that_tools_would_misread_is_refused(
    client: TestClient, handoff: dict[str, str], pointer: str, words: str
) -> None:
    refused = client.post("/recommend", json={**RUN, "handoff": handoff})
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]


def test_a_service_has_no_data_to_train_on(client: TestClient) -> None:
    workload = {"phase": "inference", "model": "meta-llama/Llama-3.1-8B", "traffic": {"peak_requests_per_s": 1}}
    refused = client.post("/recommend", json={"workload": workload, "handoff": {"dataset": "org/data"}})
    assert refused.status_code == 422
    assert "set workload.phase to training or fine_tuning" in refused.text


def test_an_answer_that_is_not_stored_is_not_found(client: TestClient) -> None:
    assert client.get(f"/recommendations/rec_{28 * '0'}/deployment?target=vllm").status_code == 404


@pytest.mark.parametrize("redundancy", ["none", "n+1"])
def test_two_desktop_machines_joined_by_a_cable_are_two_machines(client: TestClient, redundancy: str) -> None:
    asked = {
        "workload": {
            "phase": "inference",
            "model": "Qwen/Qwen3-235B-A22B",
            "traffic": {"concurrent_requests": 1, "input_tokens": 500, "output_tokens": 100},
            "availability": {"redundancy": redundancy},
        },
        "constraints": {"accelerators": ["nvidia-gb10-dgx-spark"], "engines": ["vllm"]},
    }
    answer = client.post("/recommend", json=asked).json()
    first = answer["recommendations"][0]
    d, replicas = first["deployment"], 1 + (redundancy == "n+1")
    assert d["accelerators_per_replica"] == d["tensor_parallel"] == 2  # the cable carries tensor parallelism
    assert d["nodes"] == d["total_accelerators"] == 2 * replicas
    (machine,) = [part for part in first["cost"]["parts"] if part["what"] == "machine"]
    assert machine["quantity"] == d["nodes"]
    bill = client.get(f"/recommendations/{answer['id']}/bill-of-materials").json()
    (line,) = [line for line in bill["lines"] if line["kind"] == "compute"]
    assert line["quantity"] == d["nodes"]
    again = client.post("/estimate", json={"workload": answer["request"]["workload"], "deployment": d}).json()
    assert again["deployment"]["nodes"] == d["nodes"]
    started = client.get(f"{url(answer)}?target=vllm").json()["files"][0]["text"]
    assert "--nnodes 2 " in started
    assert "first of the 2 machines" in started
