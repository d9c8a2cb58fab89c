"""The benchmark runs: one request of one body, and a second of load."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.varied import LEAST, MOST, vary_request
from tests.examples import body

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_benchmark_prints_ratios_and_a_load() -> None:
    asked = ("--rounds", "1", "--only", "embeddings", "--load-s", "1", "--connections", "2", "--workers", "1")
    command = [sys.executable, "-m", "benchmarks", *asked]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert re.search(r"recommend-inference-embeddings( +[\d.]+){4}\n", done.stdout), done.stdout
    assert re.search(r"1 workers, 2 connections", done.stdout)


def test_requests_of_a_benchmark_differ_in_size_and_keep_their_settings() -> None:
    asked = body("recommend-inference-chat-70b")
    one, other = vary_request(asked, 1), vary_request(asked, 2)
    assert one == vary_request(asked, 1) != other
    for varied in (one, other):
        traffic, own = varied["workload"]["traffic"], asked["workload"]["traffic"]
        assert {k: v for k, v in varied.items() if k != "workload"} == {
            k: v for k, v in asked.items() if k != "workload"
        }
        assert varied["workload"]["slo"]["percentile"] == asked["workload"]["slo"]["percentile"]
        assert varied["workload"]["slo"]["ttft_ms"] != asked["workload"]["slo"]["ttft_ms"]
        mean, p95 = (traffic["input_tokens"][k] / own["input_tokens"][k] for k in ("mean", "p95"))
        assert LEAST - 0.01 <= mean <= MOST + 0.01 and mean == pytest.approx(p95, rel=0.01)
