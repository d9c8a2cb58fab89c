"""Published runs of two pools: what they ask, and that both pools are in balance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.evidence import Compared, Familiarity, Setting
from app.sizing.hardware.achieved import ideal_coefficients
from calibration.case import NotCompared
from calibration.serving.cases import ServingCases
from calibration.serving.layouts import POOLS, RANKS, Layout, by_layout
from calibration.serving.problem import SERVING
from calibration.serving.split import SplitCase, build_split_case, pools_of, predict_split, split_table_of
from tests.calibration.conftest import ROWS

# TensorRT-LLM on GB300: one worker of two ranks reads, four of eight accelerators each write.
SMALL, WIDE = "inferencex-aiconfigurator-0589", "inferencex-aiconfigurator-0595"


@pytest.fixture(scope="module")
def small(builder: ServingCases) -> SplitCase:
    return build_split_case(ROWS[SMALL], builder)


@pytest.fixture(scope="module")
def wide(builder: ServingCases) -> SplitCase:
    return build_split_case(ROWS[WIDE], builder)


def predicted(case: SplitCase) -> Mapping[str, Any]:
    return predict_split(split_table_of([case]), ideal_coefficients(1))


def test_a_row_of_two_pools_is_one_row_of_each() -> None:
    pools = pools_of(ROWS[SMALL])
    assert pools is not None
    reads, writes = pools
    names = ("num_accelerators", "tp", "dp", "ep", "pp", "output_len")
    assert [reads[name] for name in names] == ["2", "1", "2", "2", "1", "1"]
    assert [writes[name] for name in names] == ["32", "8", "1", "8", "1", "1024"]
    assert sum(pools_of(row) is not None for row in ROWS.values()) == 67


def test_a_row_of_one_pool_is_none_of_two(builder: ServingCases) -> None:
    row = next(row for row in ROWS.values() if "disaggregated" not in row["notes"])
    assert pools_of(row) is None
    with pytest.raises(NotCompared, match="pools"):
        build_split_case(row, builder)


def test_a_case_is_of_all_its_accelerators_and_is_not_fitted(small: SplitCase, wide: SplitCase) -> None:
    assert (small.setting.devices, small.setting.in_flight) == (34, 12)
    assert small.exclusion_reason and set(small.measured) == {"ttft_s", "tpot_s"}
    assert wide.begins == pytest.approx(0.1)  # ten times the requests in flight
    # 1.0 MB of compressed latents in 8 bits for 0.9 K tokens, over 400 Gbit/s or more
    assert 1e-4 < small.transfer_s < 1e-2


def test_requests_in_flight_are_in_one_of_the_pools(wide: SplitCase) -> None:
    """Little's law for a run without a start: requests in flight are in prefill or in decode."""
    steady = split_table_of([wide])
    steady = replace(steady, begins=np.zeros(1))
    found = predict_split(steady, ideal_coefficients(1))
    later = wide.decode_pool.output_tokens - 1
    turn_s = float(found["ttft_s"][0] + later * found["tpot_s"][0])
    assert wide.in_flight / turn_s <= steady.decode_pool.most[0] * steady.decode_pool.replicas[0] / (
        later * found["tpot_s"][0]
    )


def test_more_workers_that_read_are_never_later_with_first_tokens(wide: SplitCase) -> None:
    more = replace(wide, prefill_pool=replace(wide.prefill_pool, replicas=4 * wide.prefill_pool.replicas))
    assert predicted(more)["ttft_s"] <= predicted(wide)["ttft_s"]


def test_more_in_flight_are_later_and_slower(wide: SplitCase) -> None:
    half = replace(wide, in_flight=wide.in_flight / 2)
    for metric, values in predicted(wide).items():
        assert values >= predicted(half)[metric]


def test_a_slower_way_between_pools_is_no_earlier(small: SplitCase) -> None:
    slow = replace(small, transfer_s=1.0)
    assert predicted(slow)["ttft_s"] >= predicted(small)["ttft_s"] + 0.9


def test_cases_of_two_pools_are_taken_as_they_are(small: SplitCase) -> None:
    assert SERVING.add_run_ratios is not None
    assert SERVING.add_run_ratios([small], ideal_coefficients(1)) == [small]
    assert small.group not in {c.group for c in (small.prefill_pool, small.decode_pool)}


def result(case: SplitCase, metric: str, measured: float, held_out: float) -> Compared:
    setting: Setting = case.setting
    return Compared(
        measurement=case.id,
        source=case.source,
        reference=case.reference,
        metric=metric,
        measured=measured,
        predicted=held_out,
        held_out=held_out,
        near=Familiarity.STACK,
        neighbor_sources=0.0,
        distance=0.0,
        low=0.0,
        high=0.0,
        promised=0.0,
        excluded=True,
        model=case.model,
        setting=setting,
    )


def test_layouts_are_reported_apart_and_throughput_follows_of_latencies(small: SplitCase) -> None:
    later = small.setting.output_tokens - 1
    rows = [result(small, "ttft_s", 2.0, 1.0), result(small, "tpot_s", 1.0, 2.0)]
    found = {(c.accelerator, c.quantity): c for c in by_layout([small], rows)}
    every = found["all", "throughput"]
    assert every == Layout(POOLS, "all", "throughput", 1, every.median, every.p90, every.bias)
    assert every.bias == pytest.approx((2 + later) / (1 + 2 * later), abs=1e-4)
    assert found["all", "tpot"].bias == 2
    assert found[small.setting.accelerator, "ttft"].median == 0.5


def test_ranks_of_one_replica_are_a_layout_too(builder: ServingCases) -> None:
    case = builder.build_case(ROWS["sglang-cookbook-0023"])
    lone = SERVING.predict(SERVING.table([case]), ideal_coefficients(1))
    # one request at a time is one stream, however many ranks there are
    assert lone["output_tokens_per_s"] <= 1.01 / lone["tpot_s"]
    row = replace(result_of(case.id, case.setting), metric="output_tokens_per_s")
    assert {c.layout for c in by_layout([case], [row])} == {RANKS}


def result_of(measurement: str, setting: Setting) -> Compared:
    return Compared(
        measurement, "s", "r", "tpot_s", 1.0, 1.0, 1.0, Familiarity.STACK, 0.0, 0.0, 1.0, 1.0, 1.0, True, "m", setting
    )
