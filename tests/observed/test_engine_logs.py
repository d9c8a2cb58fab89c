"""Logs of vLLM and SGLang."""

from __future__ import annotations

import pytest

from app.observed.figures import RunContext, UnreadableText
from app.observed.logs import read_log

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


def test_a_log_of_another_engine_than_was_said_is_refused() -> None:
    with pytest.raises(UnreadableText, match="SGLang"):
        read_log(VLLM, RunContext(), "sglang")
