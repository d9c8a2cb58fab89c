"""Which degrees a layout may take, and which layouts are judged, on hand-made tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.errors import Conflict
from app.sizing.hardware.engines import Framework
from app.sizing.question import Deployment
from app.sizing.training.degrees import (
    batch_divisors,
    degree_for_accelerators,
    fills_machines,
    forms_cluster,
    has_interconnect,
    is_divisor,
    is_legal_degree,
)
from app.sizing.training.layouts import candidate_layouts, check_layout
from app.sizing.workload import Method
from tests.examples import LLAMA_70B, PRETRAIN, col, row
from tests.sizing.serving.given import DENSE, MIXTURE
from tests.sizing.training.counted import COUNTS

TWO = np.array([False, False])


def plans(**changed: Any) -> Any:
    """Two layouts: micro-batches of one and of four sequences, in machines of eight."""
    known: dict[str, Any] = {
        "micro_batch_sequences": col(1, 4),
        "tensor_parallel": col(2, 2),
        "context_parallel": col(1, 1),
        "expert_parallel": col(1, 1),
        "ranks": col(2, 4),
        "accelerators_per_node": col(8, 8),
        "stack": row(single_accelerator=TWO),
        "machine": row(
            scale_up_accelerators=col(8, 16),
            largest_scale_up=col(8, 16),
            training_class=np.array([True, False]),
            torus=np.array([False, False]),
        ),
        "node": row(network_bytes_per_s=col(np.nan, 50e9)),
    }
    return row(**known | changed)


def test_divisors() -> None:
    assert batch_divisors(12).tolist() == [1, 2, 3, 4, 6, 12]
    assert batch_divisors(1).tolist() == [1]
    many = batch_divisors(720720)  # 240 divisors: of their places every one that 48 steps of one factor come to
    assert len(many) == 37
    assert (many[0], many[1]) == (1, 2)
    assert all(720720 % d == 0 for d in many)
    assert many[-1] <= 65536
    assert not many.flags.writeable
    assert is_divisor(col(2, 3), col(8, 8)).tolist() == [True, False]


def test_degrees_divide_the_batch_into_micro_batches() -> None:
    """64 sequences: 64 micro-batches of one, sixteen of four."""
    dense = replace(COUNTS, is_moe=False)
    assert is_legal_degree(dense, plans(), col(32, 32)).tolist() == [True, False]
    assert is_legal_degree(dense, plans(), col(16, 16)).tolist() == [True, True]
    assert is_legal_degree(dense, plans(), np.array([[16.0, 24.0], [8.0, 32.0]])).tolist() == [
        [True, False],
        [True, False],
    ]
    # 21 shares of three are 63 sequences, which is near; 24 would take 72 and 48 are as far
    assert is_legal_degree(dense, plans(), col(21, 5)).tolist() == [True, True]
    samples = replace(dense, in_samples=True)
    assert is_legal_degree(samples, plans(), col(63, 16)).tolist() == [True, True]  # a last one may be part full
    assert is_legal_degree(samples, plans(), col(65, 17)).tolist() == [False, False]
    alone = plans(stack=row(single_accelerator=np.array([True, False])))
    assert is_legal_degree(dense, alone, col(2, 2)).tolist() == [False, True]
    assert is_legal_degree(dense, alone, col(1, 1)).tolist() == [True, True]


def test_experts_spread_evenly() -> None:
    mixed = replace(COUNTS, is_moe=True)
    spread = plans(expert_parallel=col(8, 8), context_parallel=col(1, 2))
    assert is_legal_degree(mixed, spread, col(2, 2)).tolist() == [False, True]  # four ranks, eight ranks
    assert is_legal_degree(mixed, spread, col(4, 1)).tolist() == [True, False]


def test_a_degree_makes_up_the_accelerators() -> None:
    degree, may = degree_for_accelerators(replace(COUNTS, is_moe=False), plans(), col(16, 6))
    assert (degree.tolist(), may.tolist()) == ([8, 1.5], [True, False])
    assert degree_for_accelerators(replace(COUNTS, is_moe=False), plans(), col(1, 4))[1].tolist() == [False, True]


def test_clusters_fill_machines_and_have_a_network() -> None:
    assert fills_machines(plans(), col(4, 8)).tolist() == [True, True]
    assert fills_machines(plans(), col(12, 16)).tolist() == [False, True]
    assert has_interconnect(plans(), col(8, 16)).tolist() == [True, True]
    assert has_interconnect(plans(), col(16, 32)).tolist() == [False, True]
    assert forms_cluster(plans(), col(8, 8)).tolist() == [True, True]
    known = plans(node=row(network_bytes_per_s=col(50e9, 50e9)))
    assert forms_cluster(known, col(16, 16)).tolist() == [True, False]  # inference-class machines stay alone
    assert forms_cluster(known, col(12, 4)).tolist() == [False, True]


BOTH, SHARDS, ONE = Framework(splits=True, shards=False), Framework(offloads=("optimizer",)), Framework(splits=True)
RUN = replace(PRETRAIN, model=DENSE, global_batch=8)


def found(framework: Framework, run: Any = RUN, **fixed: Any) -> set[tuple[int, ...]]:
    rows = candidate_layouts(run, framework, Deployment("any", **fixed) if fixed else None)
    assert len({tuple(r) for r in rows}) == len(rows)
    assert not rows[:, 8:].any()
    return {tuple(int(v) for v in r[:8]) for r in rows}


def moved(run: Any, *parts: str, **fixed: Any) -> set[tuple[int, ...]]:
    """(ZeRO stage, checkpointing, micro-batch; what lies in the host's memory) of layouts that have anything there."""
    rows = candidate_layouts(run, Framework(offloads=parts), Deployment("any", **fixed))
    return {tuple(int(v) for v in r[4:]) for r in rows if r[7:].any()}


def test_layouts_that_replicate() -> None:
    """ZeRO-0 to -3, three ways of checkpointing, micro-batches of 1, 2, 4, 8; offloaded ones recompute all."""
    rows = found(SHARDS)
    plain = {(1, 1, 1, 1, z, c, m, 0) for z in (0, 1, 2, 3) for c in (0, 1, 2) for m in (1, 2, 4, 8)}
    assert rows == plain | {(1, 1, 1, 1, 3, 2, m, 1) for m in (1, 2, 4, 8)}
    assert found(SHARDS, optimizer_offload=True) == {(1, 1, 1, 1, 3, 2, m, 1) for m in (1, 2, 4, 8)}
    assert found(SHARDS, optimizer_offload=False) == plain
    assert found(SHARDS, zero_stage=1, activation_checkpointing="full") == {
        (1, 1, 1, 1, 1, 2, m, 0) for m in (1, 2, 4, 8)
    }
    assert found(SHARDS, tensor_parallel=2) == set()
    assert found(SHARDS, replace(RUN, method=Method.LORA)) == plain
    assert found(SHARDS, micro_batch_sequences=4, zero_stage=0) == {(1, 1, 1, 1, 0, c, 4, 0) for c in (0, 1, 2)}
    # three do not divide eight, but a deployment may fix them: the nearest batch is taken; nine exceed the batch
    assert {r[6] for r in found(SHARDS, micro_batch_sequences=3)} == {3}
    assert found(SHARDS, micro_batch_sequences=9) == set()
    assert found(SHARDS, replace(RUN, global_batch=32), optimizer_offload=True) == {
        (1, 1, 1, 1, 3, 2, m, 1) for m in (1, 2, 4, 8)
    }


def test_layouts_that_move_more_to_the_host() -> None:
    """Sharded, recomputed, in small micro-batches; trained parameters take their states along."""
    every = "optimizer", "parameters", "activations"
    small = replace(RUN, global_batch=1)
    states = {(3, 2, 1, 1, 0, 0)}
    assert moved(small, "optimizer") == states
    assert moved(small, "parameters") == {(3, 2, 1, 1, 1, 0)}
    kept = {(0, 2, 1, 0, 0, 1), (3, 2, 1, 0, 0, 1)}
    assert moved(small, "activations") == kept
    assert moved(small, *every) == states | kept | {(3, 2, 1, 1, 0, 1), (3, 2, 1, 1, 1, 0), (3, 2, 1, 1, 1, 1)}
    assert moved(small, *every, parameter_offload=True) == {(3, 2, 1, 1, 1, 0), (3, 2, 1, 1, 1, 1)}
    assert moved(small, *every, activation_offload=False, parameter_offload=False) == states
    assert moved(small, *every, parameter_offload=True, zero_stage=2) == set()
    assert moved(small, *every, activation_offload=True, optimizer_offload=False, zero_stage=1) == {(1, 2, 1, 0, 0, 1)}
    frozen = replace(small, method=Method.QLORA)
    assert moved(frozen, *every) == kept | {(3, 2, 1, 0, 1, 0), (3, 2, 1, 0, 1, 1)}
    assert moved(frozen, "optimizer") == set()
    assert {r[2] for r in moved(RUN, "activations")} == {1, 2}
    assert moved(RUN, "activations", activation_offload=True, micro_batch_sequences=8) == {
        (0, 2, 8, 0, 0, 1),
        (3, 2, 8, 0, 0, 1),
    }


def test_layouts_that_split() -> None:
    """Eight heads over four KV heads, four layers; micro-batches of up to four."""
    rows = found(BOTH)
    assert rows == {
        (t, p, 1, 1, 1, c, m, 0) for t in (1, 2, 4, 8) for p in (1, 2, 4) for c in (0, 1, 2) for m in (1, 2, 4)
    }
    fixed = {"activation_checkpointing": "none", "micro_batch_sequences": 1}
    assert found(BOTH, tensor_parallel=2, **fixed) == {(2, p, 1, 1, 1, 0, 1, 0) for p in (1, 2, 4)}
    assert found(BOTH, pipeline_parallel=2, zero_stage=0, **fixed) == {(t, 2, 1, 1, 0, 0, 1, 0) for t in (1, 2, 4, 8)}
    assert found(BOTH, tensor_parallel=3, **fixed) == found(BOTH, pipeline_parallel=5, **fixed) == set()
    assert found(ONE, tensor_parallel=2, pipeline_parallel=1, **fixed) == {(2, 1, 1, 1, 3, 0, 1, 0)}
    assert found(BOTH, tensor_parallel=1, pipeline_parallel=1, context_parallel=4, **fixed) == {
        (1, 1, 4, 1, 1, 0, 1, 0)
    }
    long = replace(RUN, units_per_sequence=16384.0)
    one = {"tensor_parallel": 1, "pipeline_parallel": 1, "activation_checkpointing": "none"}
    assert found(BOTH, long, **one) == {(1, 1, c, 1, 1, 0, m, 0) for c in (1, 2, 4, 8, 16) for m in (1, 2)}
    assert found(BOTH, replace(RUN, units_per_sequence=16383.0), **one) == {(1, 1, 1, 1, 1, 0, m, 0) for m in (1, 2, 4)}
    mixed = replace(RUN, model=MIXTURE)
    assert found(BOTH, mixed, **one) == {(1, 1, 1, e, 1, 0, m, 0) for e in (1, 8) for m in (1, 2)}
    assert found(BOTH, mixed, expert_parallel=2, micro_batch_sequences=1, **one) == {(1, 1, 1, 2, 1, 0, 1, 0)}
    large = replace(RUN, model=LLAMA_70B)
    assert {r[6] for r in found(BOTH, large)} == {1, 2}
    assert found(BOTH, replace(RUN, method=Method.QLORA)) == set()


def test_layouts_a_model_cannot_take_are_refused() -> None:
    def refused(run: Any = RUN, **fixed: Any) -> str:
        with pytest.raises(Conflict) as refusal:
            check_layout(run, Deployment("any", **fixed))
        return str(refusal.value)

    assert "no experts" in refused(expert_parallel=2)
    mixed = replace(RUN, model=MIXTURE)
    assert "8 experts" in refused(mixed, expert_parallel=3)
    assert "context_parallel 3" in refused(context_parallel=3)
    assert "8 attention heads" in refused(tensor_parallel=3)
    assert "is 8, but" in refused(pipeline_parallel=2, virtual_pipeline=4)
    assert "TorchTitan has no documented switch" in refused(framework="torchtitan", activation_offload=True)
    assert "Megatron-LM has no documented switch" in refused(framework="megatron", parameter_offload=True)
    assert "set zero_stage to 3" in refused(parameter_offload=True, zero_stage=1)
    assert "set optimizer_offload to true" in refused(parameter_offload=True, optimizer_offload=False)
    for run, fixed in (
        (RUN, {}),
        (RUN, {"expert_parallel": 1, "tensor_parallel": 8, "context_parallel": 4}),
        (mixed, {"expert_parallel": 4}),
        (RUN, {"pipeline_parallel": 2, "virtual_pipeline": 2}),
        (RUN, {"framework": "torchtitan", "parameter_offload": True}),
        (RUN, {"activation_offload": True, "zero_stage": 0}),
    ):
        check_layout(run, Deployment("any", **fixed))
