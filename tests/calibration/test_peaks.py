"""Published peaks by part, and the runs that are answered not to fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.evidence import Compared, Familiarity, Setting
from calibration.training.answered import AnsweredRun
from calibration.training.peaks import peaks_of, recomputation_of, summarize_peaks, summarize_runs

SETTING = Setting("fsdp", "nvidia_ampere", "16bit", "nvidia-a100-sxm4-80gb", "full", 7e9, 8.0, 8.0, 4096.0, 1.0)
PEAK = Compared(
    measurement="a",
    source="one",
    reference="r",
    metric="peak_memory_bytes",
    measured=100.0,
    predicted=100.0,
    held_out=100.0,
    near=Familiarity.STACK,
    neighbor_sources=0.0,
    distance=1.0,
    low=80.0,
    high=120.0,
    promised=110.0,
    excluded=False,
    model="m",
    setting=SETTING,
)
LOW = replace(PEAK, measurement="b", source="two", held_out=85.0, low=70.0, high=95.0, promised=93.5)
LOWER = replace(PEAK, measurement="c", source="two", held_out=50.0, low=40.0, high=60.0, promised=55.0)


def row(name: str, source: str, method: str, kept: str) -> dict[str, str]:
    return {"id": name, "source_key": source, "method": method, "activation_checkpointing": kept}


PUBLISHED = [row("a", "one", "pretrain", "full"), row("b", "two", "lora", "none"), row("c", "two", "lora", "")]


def test_a_part_tells_how_many_would_have_run_out_of_memory() -> None:
    found = peaks_of("method", "lora", [PEAK, LOW, LOWER])
    assert (found.rows, found.sources) == (3, 2)
    assert (found.median, found.bias) == (0.15, 0.85)
    # two of three are a tenth too low; the reserve saves the one that is 15 % off
    assert found.too_low == pytest.approx(0.6667)
    assert found.too_low_with_reserve == pytest.approx(0.3333)
    # 100 lies in 80 to 120 alone
    assert found.inside == pytest.approx(0.3333)
    assert found.width == pytest.approx(1.5)


def test_every_part_of_the_published_runs_is_reported_the_largest_first() -> None:
    speed = replace(PEAK, metric="training_tokens_per_s")
    found = summarize_peaks([PEAK, LOW, LOWER, speed], PUBLISHED)
    assert [(p.value, p.rows) for p in found if p.part == "all"] == [("all", 3)]
    assert [(p.value, p.rows) for p in found if p.part == "method"] == [("lora", 2), ("pretrain", 1)]
    assert {p.value for p in found if p.part == "recomputation"} == {"full", "none", "not said"}
    assert {p.value for p in found if p.part == "source"} == {"one", "two"}
    for part in ("method", "recomputation", "source", "recipe", "figure"):
        assert sum(p.rows for p in found if p.part == part) == 3


def test_what_a_run_recomputes_is_its_row_s_word_else_its_source_s() -> None:
    assert recomputation_of(row("a", "fsdp_qlora_bench", "qlora", "")) == "full"
    assert recomputation_of(row("a", "fsdp_qlora_bench", "qlora", "none")) == "none"
    assert recomputation_of(row("a", "no_source", "qlora", "")) == "not said"


def test_runs_that_happened_and_are_answered_not_to_fit_are_counted_by_source() -> None:
    fits = AnsweredRun(
        "a", "one", "full", "full", "x", fits=True, probability=0.9, code="", total_bytes=1, capacity_bytes=2
    )
    lost = replace(fits, id="b", source="two", fits=False, code="out_of_memory")
    refused = replace(fits, id="c", source="two", fits=False, code="unsupported")
    assert summarize_runs([fits, lost, refused]) == {"asked": 3, "misfits": 1, "by_source": {"two": [1, 2]}}
