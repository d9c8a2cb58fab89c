"""Transfer of a prompt's KV cache from the prefill pool to the decode pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, one
from app.sizing.decisions.fixed import find_machines
from app.sizing.decisions.rejections import NullRejections
from app.sizing.formula import formula
from app.sizing.hardware.links import known_network_bytes_per_s
from app.sizing.hardware.prices import KINDS
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.serving.cache import cache_bytes
from app.sizing.serving.choice import fixed_deployment_plans
from app.sizing.serving.kinds import AUTOREGRESSIVE
from app.sizing.serving.plans import Plans
from app.sizing.snapshot import Catalog
from app.sizing.values.pools import Transfer
from app.sizing.workload import InferenceWorkload

NETWORK, SCALE_UP = "network", "scale_up"


@formula(unit="s", source="definition: bytes over bandwidth of the slower side")
def transfer_s(
    sent_bytes: Column, sending_bytes_per_s: Column, received_bytes: Column, taking_bytes_per_s: Column
) -> Column:
    """Time to transfer a prompt's KV cache between two pools: that of the slower side.

    All accelerators of a replica send or receive in parallel, each over its own link.

    Parameters:
        sent_bytes: bytes that one accelerator of the prefill pool sends.
        sending_bytes_per_s: bandwidth of its link, in bytes/s.
        received_bytes: bytes that one accelerator of the decode pool receives.
        taking_bytes_per_s: bandwidth of its link, in bytes/s.
    Limits: the transfer starts when the whole prompt is read, on otherwise idle links.
    Check: 4,096 tokens of Llama 3.1 70B in 16 bits are 1.34 GB; four accelerators each send a quarter at 35 GB/s.
        >>> round(float(transfer_s(1.34e9 / 4, 35e9, 1.34e9 / 8, 35e9)) * 1e3, 2)
        9.57
    """
    sending = sent_bytes / np.maximum(sending_bytes_per_s, 1.0)
    return np.maximum(sending, received_bytes / np.maximum(taking_bytes_per_s, 1.0))


@formula(unit="1/s", source="definition")
def transfer_capacity_per_s(replicas: Column, device_bytes: Column, device_bytes_per_s: Column) -> Column:
    """KV caches that the links of one pool carry per second if they carry nothing else.

    Parameters:
        replicas: replicas of the pool, times their data-parallel ranks.
        device_bytes: bytes of a cache that one accelerator sends or receives.
        device_bytes_per_s: bandwidth of one accelerator's link, in bytes/s.
    Limits: all replicas get the same number of requests.
    Check: two replicas; each accelerator sends 335 MB of a cache at 35 GB/s.
        >>> round(float(transfer_capacity_per_s(2.0, 335e6, 35e9)), 1)
        209.0
    """
    return replicas * device_bytes_per_s / np.maximum(device_bytes, 1.0)


def shares_domain(prefill: Plans, decode: Plans, accelerators: float) -> bool:
    """Whether both pools are in one scale-up domain that spans machines."""
    alike = bool(prefill.accelerator[0] == decode.accelerator[0])
    domain, machine = one(decode.scale_up_domain), one(decode.accelerators_per_node)
    return alike and domain > machine and accelerators <= domain


def pool_link_bytes_per_s(plan: Plans, assumed: Assumptions, *, in_domain: bool) -> float:
    """Achieved bandwidth of one accelerator on the link between the pools, in bytes/s."""
    achieved, node = plan.achieved_rates, plan.node
    if in_domain:
        return one(node.link_bytes_per_s * achieved.scale_up_bandwidth_fraction)
    return one(known_network_bytes_per_s(node.network_bytes_per_s, assumed) * achieved.network_bandwidth_fraction)


def estimate_transfer(
    workload: InferenceWorkload,
    prefill: Plans,
    decode: Plans,
    replicas: tuple[float, float],
    accelerators: float,
    assumed: Assumptions,
) -> Transfer:
    """KV cache transfer between one plan of each pool, with the given numbers of replicas."""
    prompt, in_domain = workload.input_tokens.mean, shares_domain(prefill, decode, accelerators)
    sides = [
        (cache_bytes(workload.model, prompt, plan), pool_link_bytes_per_s(plan, assumed, in_domain=in_domain))
        for plan in (prefill, decode)
    ]
    (sent, sending), (received, taking) = sides
    seconds = one(transfer_s(sent, np.array([sending]), received, np.array([taking])))
    ranks = [count * one(plan.data_parallel) for count, plan in zip(replicas, (prefill, decode), strict=True)]
    carried = [
        one(transfer_capacity_per_s(np.array([count]), held, np.array([rate])))
        for count, (held, rate) in zip(ranks, sides, strict=True)
    ]
    capacity = min(carried)
    request_bytes = prompt_cache_bytes(workload, decode)
    return Transfer(
        request_bytes=request_bytes,
        seconds=seconds,
        link=SCALE_UP if in_domain else NETWORK,
        bytes_per_s=request_bytes / max(seconds, 1e-12),
        requests_per_s_capacity=capacity,
        utilization=None,
    )


def deployment_plan(question: Question, workload: InferenceWorkload, deployment: Deployment, catalog: Catalog) -> Plans:
    """The single plan of a complete deployment."""
    return fixed_deployment_plans(
        workload.model,
        catalog,
        find_machines(question, deployment, catalog, KINDS),
        Constraints(accelerators=(deployment.accelerator,)),
        NullRejections(catalog.accelerators),
        deployment,
        question.assumptions,
        phase=AUTOREGRESSIVE.phase,
        personal=False,
    ).take(np.zeros(1, np.int64))


def prompt_cache_bytes(workload: InferenceWorkload, plan: Plans) -> float:
    """KV cache of a mean prompt in bytes, counted once even if several ranks keep copies."""
    one_device = np.ones(1)
    whole = replace(plan, tensor_parallel=one_device, context_parallel=one_device, pipeline_parallel=one_device)
    return one(cache_bytes(workload.model, workload.input_tokens.mean, whole))
