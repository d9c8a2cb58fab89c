"""Which of equal stacks comes first."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.hardware.support.records import EngineSupport

SURE = EngineSupport("vllm", "nvidia_hopper", "inference", {"bf16": True}, (), "a test")


def test_the_surer_comes_first_then_the_engine_that_is_listed_first() -> None:
    rows = [
        replace(SURE, tentative=True),
        replace(SURE, engine="zeta"),
        replace(SURE, engine="alpha"),
        replace(SURE, engine="sglang"),
        SURE,
    ]
    found = [(row.engine, row.tentative) for row in sorted(rows, key=lambda row: row.sort_key)]
    sure, tentative = ["vllm", "sglang", "alpha", "zeta"], ["vllm"]
    assert found == [*((name, False) for name in sure), *((name, True) for name in tentative)]
