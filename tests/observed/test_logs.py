"""Logs of vLLM and SGLang. Logs of trainers as figures of their runs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.observed.figures import RunContext, UnreadableText
from app.observed.logs import ENGINE_LOG_NAMES, FORMATS, read_log
from tests.observed.logged import EVERY, HUGGINGFACE, LIGHTNING, MEGATRON, OLMO_CORE, SWIFT, TORCHTITAN, VERL

VLLM = "".join(
    f"(APIServer pid=1) INFO 11-23 07:00:{second:02d} [loggers.py:123] Engine 00{engine}: Avg prompt throughput: 900.0 "
    f"tokens/s, Avg generation throughput: {written:.1f} tokens/s, Running: {running} reqs, Waiting: 3 reqs, GPU KV "
    "cache usage: 31.0%, Prefix cache hit rate: 25.0%\n"
    'INFO:     127.0.0.1:38344 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    for second, (engine, written, running) in enumerate([(0, 400, 40), (1, 600, 60), (0, 400, 40), (1, 600, 60)])
)
SGLANG = (
    "[2026-09-13 09:00:00 TP0] Prefill batch. #new-seq: 1, #new-token: 1024, #cached-token: 0, #queue-req: 0\n"
    "[2026-09-13 09:00:01 TP0] Decode batch. #running-req: 48, #token: 1040, token usage: 0.31, cuda graph: True, "
    "gen throughput (token/s): 4210.55, #queue-req: 12\n"
)


def test_what_vllm_tells_of_itself_is_read() -> None:
    found = read_log(VLLM, RunContext(replicas=2))
    assert {f.quantity: f.value for f in found.figures} == pytest.approx(
        {
            "output_tokens_per_s": 1000,
            "running": 50,
            "waiting": 3,
            "cache_usage": 0.31,
            "prefix_hit_share": 0.25,
        }
    )
    some = read_log(VLLM, RunContext(replicas=4))
    assert some.figures[0].value == 2000 and "2 of 4 replicas" in some.notes[0]
    assert read_log(VLLM, RunContext(replicas=4, of_replicas=4)).figures[0].value == 1000 and found.notes == ()
    assert found.unread.lines == 4 and found.to_observations().service.running == 50


def test_what_sglang_tells_of_itself_is_read() -> None:
    found = {f.quantity: f.value for f in read_log(SGLANG, RunContext()).figures}
    assert found == {"output_tokens_per_s": 4210.55, "running": 48, "waiting": 12, "cache_usage": 0.31}


def test_preemptions_are_counted_and_no_failure() -> None:
    retracted = "".join(
        f"[2026-09-13 09:00:0{n} TP0] {words} #retracted_reqs: {n}, #new_token_ratio: 0.6012 -> 0.9783\n"
        for n, words in ((1, "KV cache pool is full. Retract requests."), (2, "Decode out of memory happened."))
    )
    found = {f.quantity: f.value for f in read_log(SGLANG + retracted, RunContext()).figures}
    assert found["preemptions"] == 3 and found["running"] == 48 and "failed_allocation_bytes" not in found
    preempted = "".join(
        f"WARNING 08-20 [scheduler.py:1141] Sequence group {n} is preempted by PreemptionMode.RECOMPUTE mode because "
        "there is not enough KV cache space. Increase gpu_memory_utilization or tensor_parallel_size to provide more "
        f"KV cache memory. total_num_cumulative_preemption={n}\n"
        for n in (1, 51, 101)
    )
    assert [(f.quantity, f.value) for f in read_log(preempted, RunContext()).figures] == [("preemptions", 101)]


REQUESTS = {
    "prompt eval time =     400.00 ms /   512 tokens (    0.78 ms per token,  1280.00 tokens per second)\n"
    "       eval time =    1600.00 ms /   200 tokens (    8.00 ms per token,   125.00 tokens per second)\n"
    "      total time =    2000.00 ms /   712 tokens": (0.4, 0.008),
    "llama_perf_context_print: prompt eval time =     400.00 ms /   512 tokens (    0.78 ms per token,  1280.00 t/s)\n"
    "llama_perf_context_print:        eval time =    1592.00 ms /   199 runs   (    8.00 ms per token,   125 t/s)": (
        0.4,
        0.008,
    ),
    "prompt eval duration: 400.000ms\nprompt eval rate:     1280.00 tokens/s\n"
    "eval count:           200 token(s)\neval rate:            125.00 tokens/s": (0.4, 0.008),
    "| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA | 99 | pp512 | 11521.47 ± 91.2 |\n"
    "| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA | 99 | tg128 | 125.00 ± 0.32 |": (None, 0.008),
    'Success total_time="2.1s" queue_time="0.1ms" inference_time="2.1s" time_per_token="8.0ms"': (None, 0.008),
}


@pytest.mark.parametrize("text", REQUESTS)
def test_times_of_requests_are_read(text: str) -> None:
    found = {f.quantity: f.value for f in read_log(text, RunContext()).figures}
    assert (found.get("ttft_p50_s"), round(found["tpot_p50_s"], 6)) == REQUESTS[text]


def test_a_log_of_another_engine_than_was_said_is_refused() -> None:
    with pytest.raises(UnreadableText, match="SGLang"):
        read_log(VLLM, RunContext(), "sglang")


RUNS = RunContext(accelerators=8, tokens_per_step=2.0**20, sequences_per_step=512)


def figures(text: str, name: str | None = None, runs: RunContext = RUNS) -> dict[str, float]:
    return {f.quantity: f.value for f in read_log(text, runs, name).figures}


@pytest.mark.parametrize("name", EVERY)
def test_a_trainer_is_known_by_its_lines_and_its_warm_up_is_left_out(name: str) -> None:
    found = read_log(EVERY[name], RUNS)
    step = {f.quantity: f for f in found.figures}["step_time_s"]
    assert step.value == pytest.approx(2.0, rel=0.01) and found.to_observations().training.step_time_s == step.value
    assert figures(EVERY[name], name) == figures(EVERY[name])
    assert EVERY[name].count("\n") + EVERY[name].count("\r") + 1 >= found.unread.lines


@pytest.mark.parametrize(
    ("text", "quantity", "value"),
    [
        ("Peak reserved memory = 12.512 GB.\nPeak reserved memory for training = 5.2 GB.", "memory_peak_bytes", 12.512),
        ("GPU memory usage while training: 13.25GB (+56.5GB cache, +1.374GB misc)", "memory_peak_bytes", 69.75),
        (
            "{'loss': 1.2, 'memory/max_mem_active(gib)': 60.1, 'tokens_per_second_per_gpu': 9.8}",
            "memory_peak_bytes",
            60.1,
        ),
        ("***** train metrics *****\n  train_steps_per_second   =      0.5", "step_time_s", 2.0),
    ],
)
def test_summaries_of_trainers_are_read(text: str, quantity: str, value: float) -> None:
    assert figures(text)[quantity] == pytest.approx(value * (2**30 if quantity.endswith("bytes") else 1))


def test_all_that_torchtitan_says_is_read() -> None:
    found = figures(TORCHTITAN)
    assert found == pytest.approx(
        {
            "step_time_s": 2.0,
            "tokens_per_s": 65536 * 8,
            "mfu": 0.412,
            "memory_peak_bytes": 66 * 2**30,
            "allocator_retries_per_step": 8 / 40,
            "warmup_s": 28.0,
            "checkpoint_s": 12.5,
            "checkpoint_interval_s": 20.0,
        },
        rel=0.03,
    )


def test_all_that_megatron_says_is_read() -> None:
    found = figures(MEGATRON)
    assert found == pytest.approx(
        {
            "step_time_s": 2.0,
            "warmup_s": 28.0,
            "optimizer_s": 0.1,
            "communication_s": 0.3,
            "input_s": 0.15,
            "checkpoint_s": 24.9,
            "power_w": 650.0,
        }
    )


def test_the_time_of_a_checkpoint_is_also_read_from_its_timestamps() -> None:
    without = "\n".join(line for line in MEGATRON.splitlines() if "save-checkpoint" not in line)
    assert figures(without)["checkpoint_s"] == pytest.approx(24.0)


def test_evaluations_are_a_share_of_the_whole_run_and_a_checkpoint_without_its_time_is_asked_for() -> None:
    found = read_log(HUGGINGFACE, RUNS)
    assert {f.quantity: f.value for f in found.figures}["evaluation_share"] == pytest.approx(0.1)
    assert any("checkpoint_s" in note for note in found.notes)


def test_a_run_that_tells_its_end_alone_is_read_by_it() -> None:
    assert figures('{"train_runtime": 300, "train_steps_per_second": 0.5}')["step_time_s"] == 2.0


def test_steps_without_a_time_are_timed_by_their_moments() -> None:
    found = figures(TORCHTITAN.replace("1048576 tokens per train step", ""), runs=RunContext(accelerators=8))
    assert found["step_time_s"] == pytest.approx(3.25, rel=0.03) and found["tokens_per_s"] == 65536 * 8


def test_a_step_of_another_size_than_the_workload_is_reported() -> None:
    found = read_log(TORCHTITAN, RunContext(accelerators=8, tokens_per_step=2.0**21))
    assert any("1,048,576 tokens" in note for note in found.notes)
    assert "step_time_s" not in {f.quantity for f in found.figures}


def test_a_bar_of_an_epoch_is_not_taken_for_another_trainers() -> None:
    assert "Lightning" in read_log(LIGHTNING, RUNS).figures[0].source


@pytest.mark.parametrize("text", [OLMO_CORE, VERL], ids=["olmo-core", "verl"])
def test_speed_memory_and_mfu_are_read_from_lines_of_their_own(text: str) -> None:
    found = figures(text)
    assert found["memory_peak_bytes"] == 80.79 * 2**30 and found["mfu"] == pytest.approx(0.412)
    assert found["tokens_per_s"] == 2**19


def test_lines_of_swift_and_axolotl_without_a_progress_bar_are_read() -> None:
    found = figures(SWIFT)
    assert found["step_time_s"] == 2.0 and found["memory_peak_bytes"] == 66 * 2**30
    axolotl = "{'loss': '0.4', 'memory/max_allocated (GiB)': '66.0', 'tokens/train_per_sec_per_gpu': '65536'}\n" * 9
    assert figures(axolotl)["tokens_per_s"] == 65536 * 8


def test_counted_tokens_give_the_size_of_a_step_and_the_throughput() -> None:
    text = "".join(
        f"{{'loss': 0.37, 'num_tokens': {1150.0 * (step // 5)}, 'epoch': 0.01}}\n"
        f"  {step // 10}%|1| {step}/1000 [00:{step:02d}<47:15,  1.40s/it]\n"
        for step in range(5, 80, 5)
    )
    runs = RunContext(tokens_per_step=8192)
    found = figures(text, runs=runs)
    assert found["tokens_per_step"] == 230 and found["tokens_per_s"] == pytest.approx(230 / 1.4)
    assert "step_time_s" not in found and "has 230 tokens" in read_log(text, runs).notes[0]


def test_the_formats_of_the_wire_are_those_that_are_read() -> None:
    assert set(FORMATS) == {*EVERY, *ENGINE_LOG_NAMES, "startup"}


@pytest.mark.parametrize("text", ["", "hello", "\x00\r\r\n", "Traceback (most recent call last):\n  File ..."])
@pytest.mark.parametrize("name", [None, "megatron"])
def test_a_text_without_steps_is_refused_with_the_formats_that_are_read(text: str, name: str | None) -> None:
    with pytest.raises(UnreadableText, match="Megatron-LM"):
        read_log(text, RUNS, name)


@given(st.sampled_from(sorted(EVERY)), st.integers(0, 4000), st.text(max_size=12), st.integers(0, 60))
def test_a_log_that_was_cut_or_garbled_is_read_or_refused(name: str, cut: int, garbage: str, lost: int) -> None:
    text = EVERY[name]
    try:
        found = read_log(text[:cut] + garbage + text[cut + lost :], RunContext())
    except UnreadableText:
        return
    assert all(f.value >= 0 for f in found.figures) and found.to_observations() is not None


def test_a_long_log_takes_as_much_longer_as_it_is() -> None:
    began = time.process_time()
    read_log((MEGATRON + "\n") * (400_000 // len(MEGATRON)), RUNS)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "piece",
    ["1", "1,", "Epoch 1: ", "step: 1 loss:", "iteration 1/ 1 |", "1/1 [0:00<0, ", "2026-08-21 ", "'eval_runtime': '"],
)
def test_no_text_takes_long(piece: str) -> None:
    began = time.process_time()
    for text in (piece * (200_000 // len(piece)), "\n".join([piece * (2000 // len(piece))] * 100)):
        try:
            read_log(text, RUNS)
        except UnreadableText:
            continue
    assert time.process_time() - began < 4


def test_a_status_line_with_an_impossible_number_is_read_without_it() -> None:
    line = "Avg generation throughput: 100.0 tokens/s, Running: 9999999999999999 reqs, Waiting: 1 reqs"
    figures = {f.quantity: f.value for f in read_log(line, RunContext(), "vllm").figures}
    assert figures == {"output_tokens_per_s": 100.0, "waiting": 1.0}
