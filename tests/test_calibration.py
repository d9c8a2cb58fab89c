"""The fit, its data files and what answers say of them: published results against the engine that answers requests."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.calibration.__main__ import risen
from app.calibration.case import NotCompared
from app.calibration.fit import Fit, points_of, predicted, solved
from app.calibration.memory_logs import logged, read_logs, version_of
from app.calibration.report import KINDS, headline, link_of, report_on, size_class, unexplained
from app.calibration.serving import (
    GENERATED_ONLY,
    SERVING,
    CaseBuilder,
    ServingCase,
    ideal,
    measured_figures,
    possible,
    predict,
    read_cases,
    table_of,
)
from app.catalog.seed import data_text, rows_of
from app.catalog.snapshot import SnapshotStore
from app.cli import cli
from app.sizing.estimate import estimate
from app.sizing.evidence import Compared, Evidence, Near, Setting, nearness
from app.sizing.hardware.achieved import SHARES, Factor, moved
from app.sizing.hardware.engines import engine_named
from app.sizing.question import Deployment, Question
from app.sizing.snapshot import Market
from app.sizing.workload import InferenceWorkload, Lengths, Load, Redundancy, Slo
from tests.examples import body

ROWS = {r["id"]: r for r in rows_of("measurements_inference.csv")}
FACTORS = list(csv.DictReader(data_text("factors.csv").splitlines()))


@pytest.fixture(scope="module")
def builder(market: Market, snapshots: SnapshotStore) -> CaseBuilder:
    return CaseBuilder(market, snapshots.model)


@pytest.fixture(scope="module")
def cases(market: Market, snapshots: SnapshotStore) -> list[ServingCase]:
    """One row in forty of every source."""
    found, _ = read_cases(list(ROWS.values())[::40], market, snapshots.model)
    return possible(found)[0]


def asked(row: dict[str, Any], builder: CaseBuilder, snapshots: SnapshotStore) -> tuple[Question, Deployment]:
    """A row as a caller would ask it."""
    model = snapshots.model(row["model"])
    load = {"single": Load.CLOSED, "concurrency": Load.CLOSED, "batch": Load.BATCH, "offline": Load.OFFLINE}[
        row["load_kind"]
    ]
    inputs, outputs = max(1.0, float(row["input_len"])), max(1.0, float(row["output_len"]))
    in_flight = 1.0 if row["load_kind"] == "single" else float(row["load_value"] or 1)
    workload = InferenceWorkload(
        model,
        load,
        0.0,
        0.0,
        in_flight,
        1.0,
        Lengths(inputs),
        Lengths(outputs),
        0.0,
        Slo(None, None, None, 95),
        inputs + outputs,
        Redundancy(),
        0.7,
    )
    return Question(workload), builder.deployment(row, model)


def test_estimate_answers_what_the_committed_predictions_say(
    builder: CaseBuilder, snapshots: SnapshotStore, market: Market
) -> None:
    """The files of the fit and the engine that answers requests cannot drift apart."""
    same = []
    for c in [r for r in market.evidence.rows if r.metric in ("output_tokens_per_s", "tpot_s", "ttft_s")][::37]:
        case = builder.case(ROWS[c.measurement])
        question, deployment = asked(dict(ROWS[c.measurement]), builder, snapshots)
        if engine_named(case.stack.engine).generation(deployment.engine_version) != case.stack.generation:
            continue  # known by its date alone, which a deployment does not carry
        p = estimate(question, deployment, market).performance
        assert p is not None, c.measurement
        found = {
            "output_tokens_per_s": p.output_tokens_per_s,
            "tpot_s": p.tpot and p.tpot.p50_s,
            "ttft_s": p.ttft and p.ttft.p50_s,
        }[c.metric]
        if found is not None:
            same.append(found == pytest.approx(c.predicted, rel=0.01))
    assert len(same) >= 40
    assert np.mean(same) >= 0.97  # the rest stand in another machine of the same accelerator


def test_no_published_result_beats_an_ideal_device(cases: list[ServingCase]) -> None:
    """And no prediction does: the guard holds for every coefficient the fit can give."""
    for case in cases:
        table = table_of([case])
        best = predict(table, ideal(1))
        for metric, value in case.measured.items():
            assert value <= 1.05 * best[metric][0] if metric.endswith("per_s") else value >= best[metric][0] / 1.05
    kept, dropped = possible([replace(cases[0], measured={"output_tokens_per_s": 1e12})])
    assert (kept, dropped) == ([], 1)


def test_predictions_never_beat_an_ideal_device(cases: list[ServingCase], market: Market) -> None:
    fit = Fit(SERVING, cases, market.coefficients)
    rng = np.random.default_rng(7)
    for x in (fit.center, rng.normal(0, 1, fit.size), rng.normal(0, 3, fit.size)):
        values = np.exp(fit.log_predicted(fit.achieved(x)))
        for point, value in zip(fit.points, values.tolist(), strict=True):
            best = predict(table_of([cases[point.case]]), ideal(1))[point.metric][0]
            assert value <= best * 1.0001 if point.metric.endswith("per_s") else value >= best * 0.9999


def test_the_fit_recovers_what_made_the_data(cases: list[ServingCase], market: Market) -> None:
    """Measurements made by the formulas with known factors are predicted by the fit to them."""
    fit = Fit(SERVING, cases, market.coefficients)
    truth = fit.center + np.random.default_rng(3).normal(0, 1, fit.size) * fit.spread
    made = np.exp(fit.log_predicted(fit.achieved(truth)))
    synthetic = [dict(c.measured) for c in cases]
    for point, value in zip(fit.points, made.tolist(), strict=True):
        synthetic[point.case][point.metric] = value
    remade = [replace(c, measured=m) for c, m in zip(cases, synthetic, strict=True)]
    found = predicted(SERVING, remade, market.coefficients, solved(SERVING, remade, market.coefficients))
    off = [abs(value / point.measured - 1) for point, value in found]
    assert np.median(off) < 0.03
    assert points_of(remade) == [point for point, _ in found]


def test_the_fit_is_deterministic(cases: list[ServingCase], market: Market) -> None:
    assert solved(SERVING, cases[:40], market.coefficients) == solved(SERVING, cases[:40], market.coefficients)


def test_every_left_out_row_has_a_reason_and_most_named_rows_are_answered() -> None:
    notes = json.loads(data_text("accuracy.json"))
    assert all(notes["left_out"]) and all(n > 0 for n in notes["left_out"].values())
    needed = ("accelerator", "num_accelerators", "model", "weight_precision", "input_len", "output_len")
    named = [r for r in ROWS.values() if all(r[k] for k in needed) and r["load_kind"] != "request_rate"]
    answered = {r["measurement"] for r in csv.DictReader(data_text("predictions.csv").splitlines())}
    assert np.mean([r["id"] in answered for r in named]) >= 0.95


def test_committed_errors_hold_what_is_promised(market: Market) -> None:
    found = headline(market.evidence.rows)
    for kind, committed in json.loads(data_text("accuracy.json"))["headline"].items():
        assert found[kind] == pytest.approx(committed, abs=3e-4)
    assert found["throughput"]["held_out"] <= 0.20
    assert {k: v["in_sample"] <= 0.15 for k, v in found.items() if k in ("throughput", "tpot", "single_stream")} == {
        "throughput": True,
        "tpot": True,
        "single_stream": True,
    }
    assert found["ttft"]["in_sample"] <= 0.30
    worse = {k: {**v, "held_out": v["held_out"] * 1.2} for k, v in found.items()}
    assert len(risen(found, worse)) == len(found)
    assert risen(found, found) == []


def test_the_readme_quotes_the_committed_errors(market: Market) -> None:
    said = re.findall(r"(\d+) % \((\d+) %\)", (Path(__file__).parents[1] / "README.md").read_text())
    found = headline(market.evidence.rows)
    shown = [
        found[k]
        for k in (
            "throughput",
            "tpot",
            "ttft",
            "single_stream",
            "prefill",
            "training",
            "training_samples",
            "training_memory",
        )
    ]
    assert said == [(f"{100 * f['held_out']:.0f}", f"{100 * f['in_sample']:.0f}") for f in shown]


def test_intervals_hold_four_fifths_of_unseen_sources(market: Market) -> None:
    report = report_on(market.evidence.rows)
    for s in report.overall:
        assert 0.74 <= s.coverage <= 0.86, s.metric
    assert unexplained(report) == []
    assert [s.metric for s in report.overall] == list(KINDS)
    assert len(report.worst) == 20


def setting(**changes: Any) -> Setting:
    known: dict[str, Any] = {
        "engine": "vllm",
        "family": "nvidia_hopper",
        "format_class": "fp8",
        "accelerator": "nvidia-h100-sxm5-80gb",
        "load": "closed",
        "params": 70e9,
        "devices": 4.0,
        "in_flight": 16.0,
        "input_tokens": 1024.0,
        "output_tokens": 1024.0,
    }
    return Setting(**known | changes)


def compared(i: int, ratio: float, *, source: str = "a", near: Near = Near.STACK, **changes: Any) -> Compared:
    return Compared(
        f"m{i}", source, "r", "output_tokens_per_s", ratio * 100.0, 100.0, 100.0, near, False, "m", setting(**changes)
    )


def test_an_interval_widens_where_sources_disagree_and_far_from_data() -> None:
    agreeing = Evidence(
        [compared(i, r, source=s) for s in "ab" for i, r in enumerate(np.linspace(0.9, 1.1, 60).tolist())]
    )
    torn = Evidence(
        [
            compared(i, r * f, source=s)
            for s, f in (("a", 0.7), ("b", 1.4))
            for i, r in enumerate(np.linspace(0.9, 1.1, 60).tolist())
        ]
    )
    tight, wide = agreeing.spread("throughput", Near.STACK), torn.spread("throughput", Near.STACK)
    assert 0.9 <= tight[0] < 1 < tight[1] <= 1.1
    assert wide[0] < tight[0] and wide[1] > tight[1]
    assert Evidence(()).spread("throughput", Near.FAR)[0] < tight[0]


def test_neighbours_are_near_and_each_measurement_comes_once() -> None:
    rows = [
        compared(0, 1.0),
        compared(0, 1.0),
        compared(1, 1.0, params=8e9),
        compared(2, 1.0, family="apple", engine="mlx"),
    ]
    found = Evidence(rows).neighbours(setting())
    assert [n.compared.measurement for n in found] == ["m0", "m1", "m2"]
    assert found[0].distance == 0
    assert found[2].distance > 1.5
    seen = {("vllm", "nvidia_hopper", "fp8"), ("mlx", "apple", "weight_only")}
    assert nearness("vllm", "nvidia_hopper", "16bit", seen) is Near.ENGINE_ON_FAMILY
    assert nearness("vllm", "apple", "fp8", seen) is Near.ENGINE_AND_FAMILY
    assert nearness("sglang", "gaudi", "fp8", seen) is Near.FAR


def test_a_share_never_reaches_its_rate() -> None:
    assert moved("linear_memory_fraction", 0.8, 0.5) == pytest.approx(2 / 3)
    assert moved("linear_memory_fraction", 0.8, 1e9) < 1
    assert moved("step_overhead_s", 0.001, 3.0) == pytest.approx(0.003)
    assert "queued_share" in SHARES


def test_factors_apply_where_all_their_keys_agree() -> None:
    factor = Factor("layer_overhead_s", "captured", "vllm", "*", "*", "amd", "*", "*", 2.0, 10, "s")
    at = {
        "runtime": "captured",
        "engine": "vllm",
        "generation": "today",
        "kernels": "untabulated",
        "vendor": "amd",
        "family": "amd_cdna3",
    }
    assert factor.applies(**at, format_class="fp8")
    assert not factor.applies(**at | {"vendor": "nvidia"}, format_class="fp8")
    assert tuple(engine_named(e).runtime for e in ("ollama", "sglang", "transformers")) == ("ggml", "captured", "eager")
    assert engine_named("vllm").generation("0.6.3") == "before"
    assert (
        engine_named("vllm").generation("0.11.2.dev690+g67475a6e8") == engine_named("vllm").generation(None) == "today"
    )
    assert engine_named("tensorrt-llm").generation(None, "2024-11") == "before"


def test_committed_factors_carry_their_provenance() -> None:
    assert len(FACTORS) > 200
    for row in FACTORS:
        assert 0.01 < float(row["value"]) < 100, row
        assert row["source"].startswith("fitted to ")
        assert int(row["rows"]) > 0
        assert row["as_of"] >= "2025"


def test_figures_are_read_as_their_source_counts_them() -> None:
    row = {"source_key": "argonne-llm-inference-bench", "engine": "llama.cpp", "total_tok_s": "53.1"}
    assert dict(measured_figures(row, alone=True)) == {"output_tokens_per_s": 53.1}
    assert ("argonne-llm-inference-bench", "llama.cpp") in GENERATED_ONLY
    row = {
        "source_key": "x",
        "engine": "vLLM",
        "total_tok_s": "100",
        "ttft_ms_mean": "900",
        "ttft_ms_p50": "300",
        "tpot_ms_mean": "20",
    }
    assert dict(measured_figures(row, alone=False)) == {"total_tokens_per_s": 100.0, "ttft_s": 0.3, "tpot_s": 0.02}


def test_cache_sizes_of_start_up_logs(builder: CaseBuilder) -> None:
    logs, left_out = read_logs(builder, list(rows_of("measurements_kv_cache.csv")))
    off = np.abs([log.off for log in logs])
    assert len(logs) >= 50
    assert np.median(off) <= 0.05
    assert sum(left_out.values()) + len(logs) == 65
    row = {**next(iter(rows_of("measurements_kv_cache.csv"))), "notes": "start failed"}
    with pytest.raises(NotCompared, match="did not start"):
        logged(builder, row)
    assert version_of({"engine_version": "", "engine": "vLLM", "source_date": "2024-12-02"}) == "0.6"
    assert version_of({"engine_version": "", "engine": "vLLM", "source_date": "2026-09-01"}) is None


def test_references_to_repositories_become_links() -> None:
    assert link_of("a/b-c:docs/x y.md@0f45") is None
    assert (
        link_of("NVIDIA/TensorRT-LLM:docs/perf.md@0f45ab")
        == "https://github.com/NVIDIA/TensorRT-LLM/blob/0f45ab/docs/perf.md"
    )
    assert link_of("github.com/vllm-project/vllm/issues/10517") == "https://github.com/vllm-project/vllm/issues/10517"
    assert link_of("a page of text") is None


def test_model_sizes_are_classed() -> None:
    assert [size_class(p) for p in (1e9, 8e9, 32e9, 70e9, 235e9, 671e9)] == [
        "under 3B",
        "3B-10B",
        "10B-40B",
        "40B-100B",
        "100B-250B",
        "250B and more",
    ]


def test_accuracy_is_answered_with_both_figures_and_reasons(client: TestClient) -> None:
    response = client.get("/accuracy")
    assert response.status_code == 200
    answer = response.json()
    assert {s["metric"] for s in answer["overall"]} == set(KINDS)
    assert set(answer["by"]) == {"engine", "accelerator_family", "format", "model_size", "load", "source", "nearness"}
    assert all(
        s["unseen_source"]["median"] > 0 and 0 <= s["coverage"] <= 1 for slices in answer["by"].values() for s in slices
    )
    assert answer["worst"][0]["source"]
    assert client.get("/accuracy", headers={"If-None-Match": response.headers["etag"]}).status_code == 304


def test_the_command_line_shows_the_accuracy(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    shown = CliRunner().invoke(cli, ["accuracy", "--by", "accelerator_family"])
    assert shown.exit_code == 0
    assert "throughput, all" in shown.output and "tpot, nvidia_hopper" in shown.output
    refused = CliRunner().invoke(cli, ["accuracy", "--by", "colour"])
    assert refused.exit_code != 0


def estimated(client: TestClient, **deployment: Any) -> dict[str, Any]:
    request = body("estimate-llama-70b-8xh100")
    request["deployment"] |= deployment
    response = client.post("/estimate", json=request)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_an_answer_says_how_sure_it_is_and_what_was_measured_nearby(client: TestClient) -> None:
    answer = estimated(client)
    p = answer["performance"]
    assert p["basis"] in ("measured", "calibrated")
    assert p["interval"]["low"] < p["output_tokens_per_s"] < p["interval"]["high"]
    assert {i["quantity"] for i in p["intervals"]} == {"ttft_ms", "tpot_ms"}
    assert all(i["low"] < p[i["quantity"]]["p50"] < i["high"] for i in p["intervals"])
    assert len(answer["nearest_measurements"]) == 3
    assert {"ttft_ms", "tpot_ms", "output_tokens_per_s"} <= set(answer["metrics"])
    assert estimated(client, expert_parallel=8)["deployment"]["expert_parallel"] == 8
    distances = [n["distance"] for n in answer["nearest_measurements"]]
    assert distances == sorted(distances)


def test_speculation_is_asked_for_by_name_and_echoed(client: TestClient) -> None:
    plain = estimated(client)
    drafted = estimated(client, speculative={"method": "eagle", "draft_tokens": 3, "acceptance_rate": 0.7})
    assert drafted["performance"]["tpot_ms"]["p50"] < plain["performance"]["tpot_ms"]["p50"]
    assert drafted["deployment"]["speculative"] == {"method": "eagle", "draft_tokens": 3, "acceptance_rate": 0.7}
    wasted = estimated(
        client,
        speculative={
            "method": "draft_model",
            "draft_tokens": 8,
            "acceptance_rate": 0.05,
            "draft_parameters_billion": 8,
        },
    )
    assert wasted["performance"]["tpot_ms"]["p50"] > plain["performance"]["tpot_ms"]["p50"]
    request = body("estimate-llama-70b-8xh100")
    request["deployment"]["speculative"] = {"method": "mtp", "draft_tokens": 1, "acceptance_rate": 0.8}
    refused = client.post("/estimate", json=request)
    assert refused.status_code == 422
    assert "multi-token prediction" in refused.json()["detail"]
    request["deployment"]["speculative"] = {
        "method": "eagle",
        "draft_tokens": 1,
        "acceptance_rate": 0.8,
        "draft_parameters_billion": 1,
    }
    assert client.post("/estimate", json=request).status_code == 422


def test_an_engines_version_changes_memory_and_host_time_and_is_echoed(client: TestClient) -> None:
    today, before = estimated(client, engine="vllm"), estimated(client, engine="vLLM", engine_version="0.6.3")
    assert before["deployment"]["engine_version"] == "0.6.3"
    assert before["deployment"]["memory_fraction"] == 0.9
    assert before["performance"]["tpot_ms"]["p50"] > today["performance"]["tpot_ms"]["p50"]
    assert estimated(client, engine="TensorRT-LLM", weight_format="fp8")["deployment"]["engine"] == "tensorrt-llm"
