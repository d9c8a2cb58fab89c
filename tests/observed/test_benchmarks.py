"""Result files are recognized by their content, survive any damage, and are refused with the reason."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.errors import Unanswerable
from app.observed.benchmarks import read_measured_runs
from app.observed.measured_run import MeasuredRun, UnusableRun, check_run, fill_run
from tests.observed.logged import MEGATRON
from tests.observed.result_files import AIPERF, FILES, GUIDELLM, PLAIN, REPORT, VLLM
from tests.observed.test_startup import VLLM as STARTUP

STATED = {
    "concurrency": 8.0,
    "output_tokens": 128.0,
    "accelerators": 8.0,
    "global_batch_sequences": 32.0,
    "sequence_length": 2048.0,
}
# What the first run of each file says: load, lengths, output tokens/s, TTFT and TPOT.
READ: dict[str, dict[str, float | str]] = {
    "vllm": {"concurrency": 24, "input_tokens": 1024, "output_tokens_per_s": 1718, "ttft_s": 0.46, "tpot_s": 0.0124},
    "sglang": {
        "concurrency": 24,
        "busy_concurrency": 22,
        "latency_statistic": "p50",
        "ttft_s": 0.2501,
        "tpot_s": 0.039,
    },
    "screen": {"tensor_parallel": 2, "concurrency": 24, "output_tokens_per_s": 401.57, "ttft_s": 0.3102},
    "vllm-latency": {"engine": "vllm", "concurrency": 8, "completed": 240, "output_tokens_per_s": 8 * 128 / 2.61},
    "vllm-throughput": {"completed": 1000, "input_tokens": 640 - 128, "output_tokens_per_s": 16 * 128},
    "guidellm": {"concurrency": 8, "completed": 96, "failed": 0, "output_tokens_per_s": 409.6, "tpot_s": 0.041},
    "aiperf": {"accelerator": "NVIDIA H100 80GB HBM3", "concurrency": 24, "ttft_p99_s": 0.9, "tpot_s": 0.041},
    "genai-perf": {"model": "llama-3.1-8b-instruct", "concurrency": 24, "ttft_s": 0.301},
    "inference-perf": {"asked_per_s": 0.4, "achieved_per_s": 0.39, "output_tokens": 546, "tpot_s": 0.0104},
    "report": {"engine_version": "0.22.0", "accelerators": 2, "asked_per_s": 4, "failed": 3, "tpot_s": 0.018},
    "llama-bench": {"weight_format": "gguf-q4_k_m", "batch": 1, "input_tokens": 512, "ttft_s": 512 / 9100.5},
    "llama-lines": {"engine_version": "b9500", "input_tokens": 512, "ttft_s": 512 / 9100.5},
    "llama-csv": {"engine_version": "b9500", "weight_format": "gguf-q4_k_m", "ttft_s": 512 / 9100.5},
    "aiperf-sweep": {"concurrency": 10, "completed": 96, "output_tokens_per_s": 409.6, "ttft_s": 0.301},
    "sglang-screen": {"engine": "sglang", "concurrency": 8, "busy_concurrency": 7.73, "ttft_s": 0.56162},
    "llama-table": {"engine_version": "b9500", "input_tokens": 512, "ttft_s": 512 / 9100.5},
    "mlperf": {"asked_per_s": 12.5, "output_tokens": 3400.2 / 12.01, "ttft_s": 0.8, "tpot_s": 0.09},
    "plain": {"accelerator": "h100-sxm", "concurrency": 24, "ttft_s": 0.46, "output_tokens_per_s": 1700},
    "trainer": {"engine": "torchtitan", "step_time_s": 32 * 2048 / (8 * 5000), "tokens_per_s": 40000},
    "engine": {"engine": "vllm", "concurrency": 24, "output_tokens_per_s": 1700.5},
}


@pytest.mark.parametrize("name", FILES)
def test_every_tool_is_recognized_by_content_and_its_figures_come_in_base_units(name: str) -> None:
    tool, text = FILES[name]
    run = read_measured_runs(text, STATED)[0]
    assert run.format == tool
    for field, value in READ[name].items():
        assert getattr(run, field) == (value if isinstance(value, str) else pytest.approx(value)), field
    check_run(run)


def test_a_report_that_guidellm_wrote_is_read() -> None:
    # What benchmark.sh of a hand-off left of llama-server with a tiny model, without the single requests.
    (run,) = read_measured_runs((Path(__file__).parent / "guidellm_0.8.1.json").read_text())
    assert (run.format, run.model, run.asked_per_s, run.completed) == ("guidellm", "./tiny", 20.0, 60)
    assert run.output_tokens == pytest.approx(8.6333, rel=1e-4)
    assert run.ttft_p50_s is not None and 0 < run.ttft_p50_s < 1
    check_run(replace(run, model="llama-3.1-8b-instruct"))


def test_the_digest_is_that_of_the_content_not_of_its_layout() -> None:
    plain, indented = json.dumps(VLLM), json.dumps(dict(reversed(VLLM.items())), indent=2)
    assert read_measured_runs(plain)[0].digest == read_measured_runs(indented)[0].digest
    other = read_measured_runs(json.dumps(VLLM | {"output_throughput": 1719.0}))[0]
    assert other.digest != read_measured_runs(plain)[0].digest
    sweep = read_measured_runs(json.dumps(GUIDELLM))
    assert len({run.digest for run in sweep}) == len(sweep) == 2


def test_lines_of_json_are_one_run_each() -> None:
    text = "\n".join(json.dumps(VLLM | {"max_concurrency": c}) for c in (4, 8, 16))
    assert [run.concurrency for run in read_measured_runs(text)] == [4, 8, 16]


def read_changed(**changes: Any) -> MeasuredRun:
    """The run of vllm bench serve with other values."""
    return read_measured_runs(json.dumps(VLLM | changes))[0]


REFUSED = {
    "failing": (read_changed(failed=9), "9 of 105 requests failed"),
    "short": (read_changed(completed=49), "has 49 requests"),
    "first wave": (read_changed(max_concurrency=40), "first wave"),
    "cold": (read_changed(p99_ttft_ms=31000.0), "cold start"),
    "overloaded": (read_changed(max_concurrency=None, request_rate=8.0), "asked for 8 requests/s and achieved 6.71"),
    "client": (read_changed(mean_e2el_ms=1500.0), "kept 10.1 of 24 requests in flight"),
    "cancelled": (read_measured_runs(json.dumps(AIPERF | {"was_cancelled": True}))[0], "stopped early"),
    "drafted": (read_measured_runs(json.dumps({**VLLM, "spec_decode_acceptance_length": 2.8}))[0], "speculative"),
    "invalid": (read_measured_runs(FILES["mlperf"][1].replace(": VALID", ": INVALID"))[0], "INVALID"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_run_that_says_nothing_about_the_stack_is_refused_with_the_reason(why: str) -> None:
    run, reason = REFUSED[why]
    with pytest.raises(UnusableRun, match=reason.replace("(", r"\(")):
        check_run(run)


def test_a_report_of_several_replicas_is_refused() -> None:
    several = json.loads(json.dumps(REPORT))
    several["scenario"]["stack"][0]["standardized"]["replicas"] = 2
    with pytest.raises(UnusableRun, match="several engines"):
        check_run(read_measured_runs(json.dumps(several))[0])


@pytest.mark.parametrize("name", ["vllm", "plain"])
def test_a_figure_too_small_for_a_measurement_is_not_read(name: str) -> None:
    """A denormal number would become 0 in base units or relative to its prediction."""
    stated = json.loads(FILES[name][1])
    tiny = {key: 5e-324 for key in stated if "ttft" in key or key.startswith("output_t")}
    assert tiny
    (run,) = read_measured_runs(json.dumps(stated | tiny), STATED)
    assert run.ttft_s is None and (run.output_tokens_per_s or 1718) > 1717  # derived from totals, if from anything


def test_a_log_without_a_speed_is_refused_with_its_reason() -> None:
    with pytest.raises(Unanswerable, match="has no speed: start-up lines"):
        read_measured_runs(STARTUP)
    with pytest.raises(Unanswerable, match="A step in the log has 512 sequences, a step of the workload 64"):
        read_measured_runs(MEGATRON, {"global_batch_sequences": 64.0, "sequence_length": 4096.0})


DAMAGED_TABLE = "build_commit,avg_ts,n_prompt,n_gen\n" + "x" * 200_000
NOTHING = ("", "hello", "{}", "[]", "[1]", '{"a":' * 5000, '{"completed": 1', "null", "\x00", "{", DAMAGED_TABLE)


@pytest.mark.parametrize("text", NOTHING)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Unanswerable):
        read_measured_runs(text)


def test_an_unknown_field_of_a_plain_measurement_is_named() -> None:
    with pytest.raises(Unanswerable, match="'outputs'"):
        read_measured_runs(json.dumps(PLAIN | {"outputs": 1}))


def test_a_parameter_must_not_contradict_the_file() -> None:
    run = read_changed()
    with pytest.raises(UnusableRun, match="states concurrency 24, but the parameter is 32"):
        fill_run(run, {"concurrency": 32.0})
    with pytest.raises(UnusableRun, match="'vllm', but the parameter is 'sglang'"):
        fill_run(run, {"engine": "sglang"})
    assert fill_run(run, {"concurrency": 24.0, "tensor_parallel": 2.0}) == replace(run, tensor_parallel=2.0)


def damaged_files(count: int) -> Iterator[str]:
    """Files with parts cut out, replaced, inserted or repeated; the same ones in every run."""
    draw = random.Random(20261127)
    pieces = ["null", "-1", "1e999", '"x"', "{}", "[]", "true", "NaN", "9" * 23, "0", "\ud800", "é", "\n"]
    for _ in range(count):
        text = list(draw.choice(list(FILES.values()))[1])
        for _ in range(draw.choice([1, 1, 2, 5, 20])):
            place, width = draw.randrange(len(text) + 1), draw.randint(1, 30)
            way = draw.randrange(4)
            if way == 0:
                del text[place : place + width]
            elif way == 1:
                text[place : place + 1] = draw.choice('{}[]",:0123456789eE-.|\n ')
            elif way == 2:
                text[place:place] = draw.choice(pieces)
            else:
                text[place:place] = text[:width]
        yield "".join(text)


def check_damaged(count: int) -> int:
    """Read damaged files; the number of those that still have usable runs."""
    usable = 0
    for text in damaged_files(count):
        try:
            for run in read_measured_runs(text, STATED):
                check_run(run)
                usable += 1
        except Unanswerable as error:
            assert error.detail
    return usable


def test_damaged_files_are_read_or_refused() -> None:
    assert check_damaged(400) > 50


@pytest.mark.slow
def test_ten_thousand_damaged_files_are_read_or_refused() -> None:
    assert check_damaged(10_000) > 1000
