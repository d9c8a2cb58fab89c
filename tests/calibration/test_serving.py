"""Published serving results against the engine that answers requests."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.catalog.files import read_data_file
from app.catalog.snapshot import CatalogStore
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.achieved import ideal_coefficients
from app.sizing.hardware.engines import engine_named
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load, Redundancy, Slo
from calibration.serving.cases import ServingCase, ServingCases
from calibration.serving.formulas import closed_form_metrics, table_of
from calibration.serving.measured import GENERATED_ONLY, measured_figures
from calibration.serving.problem import drop_impossible_figures
from calibration.serving.published import engine_version
from calibration.serving.runs import Start, run_of
from tests.calibration.conftest import ROWS

ALONE = (Start.SINGLE, Start.STATIC)  # runs that no simulation tells better than the formulas


def asked(row: dict[str, Any], builder: ServingCases, catalog_store: CatalogStore) -> tuple[Question, Deployment]:
    """A row as a caller would ask it."""
    model, run = catalog_store.find_model(row["model"]), run_of(row)
    inputs, outputs = (run.spread.lengths_around(max(1.0, float(row[name]))) for name in ("input_len", "output_len"))
    workload = InferenceWorkload(
        model,
        run.load_kind,
        0.0,
        0.0,
        1.0 if run.start is Start.SINGLE else float(row["load_value"] or 1),
        1.0,
        inputs,
        outputs,
        0.0,
        Slo(None, None, None, 95),
        inputs.mean + outputs.mean,
        Redundancy(),
        0.7,
    )
    # at even odds nothing is kept free for what memory may turn out larger by: the batch is as predicted
    return Question(workload, constraints=Constraints(confidence=0.5)), builder.read_deployment(row, model)


def test_a_launch_command_sets_the_graphs_that_launch_prompts(builder: ServingCases) -> None:
    """Recipes of InferenceX capture graphs of up to 2,048 tokens; where a row says nothing, the engine's default."""
    row = next(r for r in ROWS.values() if r["launch_graph_tokens"] == "2048")
    for said, tokens in (("2048", 2048), ("0", 0), ("", 512)):
        case = builder.build_case({**row, "launch_graph_tokens": said, "launch_max_sequences": "256"})
        assert (case.scheduler.graph_tokens, case.prefill.graph_tokens.tolist()) == (tokens, [tokens])
    assert (
        builder.build_case({**row, "launch_graph_tokens": "", "launch_max_sequences": "16"}).scheduler.graph_tokens
        == 32
    )


@pytest.mark.slow
def test_estimate_answers_what_the_committed_predictions_say(
    builder: ServingCases, catalog_store: CatalogStore, catalog: Catalog
) -> None:
    """The files of the fit and the engine that answers requests cannot drift apart."""
    same = []
    metrics = ("output_tokens_per_s", "tpot_s", "ttft_s")
    alone = [r for r in catalog.evidence.rows if r.metric in metrics and r.measurement in ROWS]
    for c in [r for r in alone if run_of(ROWS[r.measurement]).start in ALONE][::11]:
        case = builder.build_case(ROWS[c.measurement])
        question, deployment = asked(dict(ROWS[c.measurement]), builder, catalog_store)
        if engine_named(case.stack.engine).generation_at(deployment.engine_version) != case.stack.generation:
            continue  # known by its date alone, which a deployment does not carry
        if case.run.graph_tokens is not None:
            continue  # a deployment has the engine's own graphs
        assert case.stack.format_class == c.setting.format_class
        p = estimate_deployment(question, deployment, catalog).performance
        assert p is not None, c.measurement
        found = {
            "output_tokens_per_s": p.output_tokens_per_s,
            "tpot_s": p.tpot and p.tpot.p50_s,
            "ttft_s": p.ttft and p.ttft.p50_s,
        }[c.metric]
        if found is not None and (case.run.served or case.load is Load.BATCH):  # as a stream that is asked for
            same.append(found == pytest.approx(c.predicted, rel=0.01))
    assert len(same) >= 40
    assert np.mean(same) >= 0.96  # the rest stand in another machine of the same accelerator


def test_no_published_result_beats_an_ideal_device(cases: list[ServingCase]) -> None:
    """And no prediction does: the guard holds for every coefficient the fit can give."""
    for case in cases:
        table = table_of([case])
        best = closed_form_metrics(table, ideal_coefficients(1))
        for metric, value in case.measured.items():
            assert value <= 1.05 * best[metric][0] if metric.endswith("per_s") else value >= best[metric][0] / 1.05
    kept, dropped = drop_impossible_figures([replace(cases[0], measured={"output_tokens_per_s": 1e12})])
    assert (kept, dropped) == ([], 1)


def test_every_left_out_row_has_a_reason_and_most_named_rows_are_answered() -> None:
    notes = json.loads(read_data_file("accuracy.json"))
    assert all(notes["left_out"]) and all(n > 0 for n in notes["left_out"].values())
    needed = ("accelerator", "num_accelerators", "model", "weight_precision", "input_len", "output_len")
    named = [r for r in ROWS.values() if all(r[k] for k in needed)]
    answered = {r["measurement"] for r in csv.DictReader(read_data_file("predictions.csv").splitlines())}
    assert np.mean([r["id"] in answered for r in named]) >= 0.95


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


def test_an_unnamed_version_has_the_defaults_of_its_day() -> None:
    assert engine_version("vllm", "", "2025-10-29") == "0.27"  # before the steps of large accelerators grew
    assert [engine_version("vllm", "", day) for day in ("2024-10", "2026-10-01", "")] == [None] * 3
    assert engine_version("vllm", "0.9.2", "2025-10-29") == "0.9.2"
    assert engine_version("tensorrt-llm", "0.8.1.post2", "2025-10-29") is None


def test_a_prompt_that_follows_a_filled_cache_is_only_its_new_tokens(builder: ServingCases) -> None:
    """llama-bench's `pp2048 @ d32768` reads 2,048 tokens, each of which attends to all before it."""
    filled = (r for r in ROWS.values() if "32768 tokens already in the cache (prefill" in r["notes"])
    row = next(r for r in filled if r["model"] == "openai/gpt-oss-20b")
    deep, whole = builder.build_case(row), builder.build_case({**row, "notes": ""})
    assert (deep.prefill.new_tokens[0], deep.prefill.prompt_tokens[0]) == (2048, 34816)
    attention = [c.prefill.score_flops[0] / c.prefill.new_tokens[0] for c in (deep, whole)]
    assert attention[0] == pytest.approx(attention[1] * (32768 + 34816) / 32768, rel=0.01)
