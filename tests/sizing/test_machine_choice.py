"""Machines of a requested deployment: what it leaves open is at least as fast as any machine it could name, and
accelerators that exchange data share a machine.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment, judge_deployment
from app.sizing.hardware.parts import System
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load, Slo, TrainingWorkload
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, PRETRAIN, present, registered

MIXTURE = registered("Qwen/Qwen3-30B-A3B")
BATCH = replace(CHAT, model=MIXTURE, load=Load.OFFLINE)
RUN = replace(PRETRAIN, model=LLAMA_8B, global_batch=64, deadline_s=1e15)
NEAR_TIE = 1 + Assumptions().near_tie_share
GPUS = ("nvidia-h100-sxm5-80gb", "nvidia-h200-sxm-141gb", "nvidia-h200-nvl-141gb", "nvidia-h100-pcie-80gb")
OTHERS = ("nvidia-b200-sxm-180gb", "nvidia-gb300-279gb", "amd-mi325x", "amd-mi300x", "nvidia-a30", "nvidia-l40s")


def connected(system: System) -> float:
    """Accelerators that a system connects without the network."""
    return max(system.accelerator_count, system.scaleup_domain_size or 0)


def systems_holding(catalog: Catalog, accelerator: str, size: int) -> list[str]:
    """Systems of the catalog that connect that many of these accelerators."""
    return [s.slug for s in catalog.systems.values() if s.accelerator == accelerator and connected(s) >= size]


def judged(catalog: Catalog, workload: InferenceWorkload | TrainingWorkload, deployment: Deployment) -> Estimate | None:
    """The estimate; None where nothing can be judged."""
    try:
        found = judge_deployment(Search.start(Question(workload), catalog), deployment)
    except Conflict:
        return None
    return found if found.performance is not None else None


def rate(found: Estimate) -> float:
    """Tokens per second of a run, or requests per second that a service carries."""
    assert found.performance is not None
    return found.performance.tokens_per_s or found.performance.requests_per_s_capacity or 0.0


def ranks(accelerator: str, size: int) -> Deployment:
    """One replica whose ranks exchange tokens with each other."""
    return Deployment(
        accelerator,
        total_accelerators=size,
        accelerators_per_replica=size,
        replicas=1,
        spare_replicas=0,
        tensor_parallel=1,
        data_parallel=size,
        expert_parallel=size,
    )


@pytest.mark.parametrize(
    ("workload", "layout_is_open"), [(BATCH, False), (replace(BATCH, model=LLAMA_70B), True), (RUN, True)]
)
@given(st.sampled_from(GPUS + OTHERS), st.sampled_from([2, 4, 8]), st.data())
def test_naming_nothing_is_never_slower_than_naming_a_machine(
    catalog: Catalog,
    workload: InferenceWorkload | TrainingWorkload,
    layout_is_open: bool,
    accelerator: str,
    size: int,
    data: st.DataObject,
) -> None:
    """A machine with a firm price may be slower by a near tie."""
    holding = systems_holding(catalog, accelerator, size)
    if layout_is_open and isinstance(workload, InferenceWorkload):  # otherwise the named one may carry more of them
        holding = [name for name in holding if catalog.systems[name].accelerator_count == size]
    if not holding:
        return
    deployment = Deployment(accelerator, total_accelerators=size) if layout_is_open else ranks(accelerator, size)
    named = judged(catalog, workload, replace(deployment, system=data.draw(st.sampled_from(sorted(holding)))))
    if named is None:
        return
    found = present(judged(catalog, workload, deployment))
    assert found.fits >= named.fits
    assert not named.fits or rate(found) * NEAR_TIE >= rate(named) * (1 - 1e-9)


@pytest.mark.parametrize("accelerator", GPUS + OTHERS)
@pytest.mark.parametrize("size", [2, 4, 8])
def test_accelerators_that_exchange_data_share_a_machine(catalog: Catalog, accelerator: str, size: int) -> None:
    """Where the catalog has such a machine, whatever its price; of GB300 eight of a rack."""
    whole = bool(systems_holding(catalog, accelerator, size))
    for workload, deployment in (
        (BATCH, ranks(accelerator, size)),
        (RUN, Deployment(accelerator, total_accelerators=size)),
    ):
        found = judged(catalog, workload, deployment)
        if found is not None and whole:
            assert found.deployment.nodes == 1


@pytest.mark.parametrize(
    ("workload", "deployment"),
    [
        (replace(CHAT, model=LLAMA_70B, peak_per_s=2.0, slo=Slo(0.6, 0.02, None, 95)), Deployment("amd-mi350x")),
        (replace(CHAT, model=LLAMA_70B), Deployment("amd-mi350x", tensor_parallel=8)),
        (RUN, Deployment("amd-mi350x", total_accelerators=8)),
    ],
)
def test_accelerators_that_are_only_rented_singly_share_an_unpriced_machine_of_usual_size(
    catalog: Catalog, workload: InferenceWorkload | TrainingWorkload, deployment: Deployment
) -> None:
    """Where the limits or the layout need several of them."""
    assert not systems_holding(catalog, "amd-mi350x", 2)
    found = present(judged(catalog, workload, deployment))
    assert found.cost is None or found.cost.usd_per_hour is None
    assert found.deployment.total_accelerators == 8 * (found.deployment.nodes or 0)


@pytest.mark.parametrize("size", [64, 256])
def test_a_large_run_does_not_rent_accelerators_one_by_one(catalog: Catalog, size: int) -> None:
    """The only firm price of a GB300 is that of a single one; racks exist."""
    found = present(
        judged(catalog, replace(RUN, global_batch=512), Deployment("nvidia-gb300-279gb", total_accelerators=size))
    )
    assert found.deployment.system == "gb300-nvl72"
    assert found.deployment.nodes == -(-size // 72)


def test_separate_machines_are_used_where_a_deployment_names_them(catalog: Catalog) -> None:
    single = {"provider": "hyperstack", "instance_type": "h200"}
    by_name = judged(catalog, BATCH, replace(ranks("nvidia-h200-sxm-141gb", 4), **single))  # type: ignore[arg-type]
    by_number = judged(catalog, BATCH, replace(ranks("nvidia-h200-sxm-141gb", 4), nodes=4))
    run = judged(catalog, RUN, Deployment("nvidia-h200-sxm-141gb", total_accelerators=8, nodes=8))
    for found, nodes in ((by_name, 4), (by_number, 4), (run, 8)):
        assert found is not None
        assert found.deployment.nodes == found.deployment.total_accelerators == nodes


def test_the_answer_keeps_its_numbers_when_it_is_sent_back(catalog: Catalog) -> None:
    for workload, deployment in (
        (BATCH, ranks("nvidia-h200-sxm-141gb", 4)),
        (RUN, Deployment("nvidia-gb300-279gb", total_accelerators=8)),
    ):
        first = estimate_deployment(Question(workload), deployment, catalog)
        again = estimate_deployment(Question(workload), first.deployment, catalog)
        assert rate(again) == pytest.approx(rate(first))
        assert again.cost == first.cost


@pytest.mark.parametrize("workload", [replace(CHAT, model=registered("deepseek-ai/DeepSeek-V3")), RUN])
def test_the_search_splits_nothing_over_single_accelerators(
    catalog: Catalog, workload: InferenceWorkload | TrainingWorkload
) -> None:
    names = tuple(name for name in GPUS + OTHERS if systems_holding(catalog, name, 2))
    answer = recommend_hardware(Question(workload, Constraints(accelerators=names), limit=len(names)), catalog)
    assert answer.recommendations
    for ranked in answer.recommendations:
        d = ranked.estimate.deployment
        stage = (d.accelerators_per_replica or 1) // (d.pipeline_parallel or 1)
        assert stage == 1 or (d.total_accelerators or 1) > (d.nodes or 1)
