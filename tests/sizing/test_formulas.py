"""Each formula against the number a reader can check by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.cost import kwh_per_million, usd_per_million
from app.sizing.decisions.placement import replicas_needed, spare_replicas
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.links import all_reduce_s
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.serving.load import mean_batch_for, mixed_tpot_s, queue_quantile_s, rate_per_s
from app.sizing.serving.memory import activation_bytes, padded_share, weights_per_device_bytes
from app.sizing.serving.step import StepTerms, decode_step_s, smooth_maximum, touched_experts
from app.sizing.units import GIB
from app.sizing.workload import Lengths, Redundancy
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B


def col(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def test_weights_are_split_evenly() -> None:
    total = col(LLAMA_70B.weights_bytes(WEIGHT_FORMATS["bf16"]))
    # 131.417 GiB / 8 * 1.005
    assert weights_per_device_bytes(total, col(8), Assumptions())[0] / GIB == pytest.approx(16.509, abs=1e-3)


def test_activation_workspace() -> None:
    live = activation_bytes(LLAMA_8B, col(8192), col(64), col(3.8), col(1), col(1), Assumptions())[0] / GIB
    # 1.5 * (8192 * 6 * 14336 + 4 * 8192 * 4096) bytes: more than the logits of 64 sequences
    assert live == pytest.approx(1.5 * (704_643_072 + 134_217_728) / GIB)
    sampled = activation_bytes(LLAMA_8B, col(8192), col(1024), col(3.8), col(1), col(1), Assumptions())[0] / GIB
    # 3.8 * 1024 * 128256 * 4 bytes; vLLM 0.19 on an H100 reports 1.89 GiB
    assert sampled == pytest.approx(1.859, abs=1e-3)


def test_padding_of_mxfp4_experts() -> None:
    assert padded_share(2880) == pytest.approx(3072 / 2880 - 1)
    assert padded_share(4096) == 0


def test_engines_divide_a_device_by_their_own_rules() -> None:
    assert engine_named("vllm").memory.fraction == 0.92
    old = engine_named("vllm").memory_at("0.11.2.dev690+g67475a6e8")
    assert (old.fraction, old.logits_copies, old.graphs_inside) == (0.9, 9.6, False)
    assert engine_named("sglang").memory.fraction_of == "static"
    assert engine_named("tensorrt-llm").memory_at("1.0").fraction_of == "free"


def test_touched_experts_follow_the_batch() -> None:
    assert touched_experts(col(32), col(8 / 256))[0] == pytest.approx(1 - (1 - 1 / 32) ** 32)
    assert touched_experts(col(5), col(0.0))[0] == 0
    assert touched_experts(col(1), col(1.0))[0] == pytest.approx(1)


def test_smooth_maximum_is_at_least_either_bound() -> None:
    assert smooth_maximum(col(3, 1), col(4, 1), col(2, 1))[0] == pytest.approx(5)
    assert smooth_maximum(col(3, 1), col(4, 1), col(2, 1))[1] == pytest.approx(2)
    assert smooth_maximum(col(0), col(7), col(2.4))[0] == pytest.approx(7)


def test_ring_all_reduce() -> None:
    assert all_reduce_s(col(1e6), col(8), col(337.5e9))[0] == pytest.approx(1.75e6 / 337.5e9)
    assert all_reduce_s(col(1e6), col(1), col(1e15))[0] == 0


def flat_step(seconds: float) -> StepTerms:
    """A step that takes the same time whatever the batch."""
    terms: dict[str, Any] = {name: col(0.0) for name in StepTerms.__dataclass_fields__}
    same = {"pipeline_parallel": col(1), "exponent": col(2.0), "drafted": 0.0, "draft_share": 0.0, "gained": 1.0}
    return StepTerms(**terms | same | {"host_fixed_s": col(seconds)})


def test_littles_law() -> None:
    # 32 sequences: 32 prompts of 10 ms and 255 further tokens in steps of 20 ms make a turn of 5.42 s
    assert rate_per_s(flat_step(0.020), col(0.010), 256, col(32))[0] == pytest.approx(32 / (0.32 + 255 * 0.020))


def test_one_sequence_alone_waits_for_no_prompt_but_its_own() -> None:
    step = flat_step(0.001)
    alone = mixed_tpot_s(step, col(5.0), 100, col(1))[0]
    assert alone == decode_step_s(step, col(1))[0]
    pair = mixed_tpot_s(step, col(5.0), 100, col(2))[0]
    assert pair == pytest.approx(decode_step_s(step, col(2))[0] + 5.0 / 99)


def test_mean_occupancy_below_a_quantile() -> None:
    mean = mean_batch_for(col(100), 1.645)[0]
    assert mean == pytest.approx(84.9, abs=0.1)
    assert mean + 1.645 * np.sqrt(mean) == pytest.approx(100)


def test_queue_quantile_is_exact_for_m_m_1() -> None:
    # load 0.8, service 1 s: P(wait > t) = 0.8 exp(-0.2 t), so p95 is ln(0.8 / 0.05) / 0.2
    assert queue_quantile_s(col(0.8), col(1.0), 95, 1.0)[0] == pytest.approx(np.log(16) / 0.2)
    assert queue_quantile_s(col(0.01), col(1.0), 95, 1.0)[0] == 0
    assert np.isinf(queue_quantile_s(col(1.0), col(1.0), 95, 1.0)[0])


def test_replicas_carry_the_target_share() -> None:
    assert replicas_needed(CHAT, col(5 / 0.7 / 3, 100), col(8, 8)).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("redundancy", "spare"),
    [
        (Redundancy(), 0),
        (Redundancy(spare=1), 1),
        (Redundancy(spare=2), 2),
        (Redundancy(double=True), 3),
        (Redundancy(spare=1, zones=2), 3),
        (Redundancy(spare=1, zones=4), 1),
    ],
)
def test_spares_survive_the_loss_of_a_domain(redundancy: Redundancy, spare: int) -> None:
    assert spare_replicas(redundancy, col(3))[0] == spare


def test_cost_and_energy_per_million() -> None:
    assert usd_per_million(col(110.2), col(27000))[0] == pytest.approx(1.134, abs=1e-3)
    assert kwh_per_million(col(11200), col(27000))[0] == pytest.approx(0.115, abs=1e-3)


def test_a_length_distribution_passes_through_its_mean_and_p95() -> None:
    lengths = Lengths(1024, 3000)
    assert lengths.quantile(95) == pytest.approx(3000)
    mean = np.exp(np.log(1024) - lengths.sigma**2 / 2 + lengths.sigma**2 / 2)
    assert mean == pytest.approx(1024)
    assert Lengths(500).quantile(99) == 500


def test_assumptions_refuse_what_is_out_of_range() -> None:
    changed = Assumptions().with_overrides({"target_utilization": 0.5})
    assert changed.target_utilization == 0.5
    with pytest.raises(Exception, match="must be from"):
        Assumptions().with_overrides({"target_utilization": 7})
    with pytest.raises(Exception, match="no assumption"):
        Assumptions().with_overrides({"luck": 1})
