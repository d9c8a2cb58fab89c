"""Offloading to host memory: which plans keep weights there, how much of them, and which host they use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.errors import Conflict
from app.sizing.assumptions import Assumptions, names_in
from app.sizing.columns import GIB, ROUNDING, Codes, Column, Mask, distinct_rows, with_rows
from app.sizing.decisions.machines import host_socket_bytes_per_s
from app.sizing.decisions.search import Search
from app.sizing.formula import suspend_recording
from app.sizing.hardware.engines import engine_named
from app.sizing.question import Deployment
from app.sizing.serving.host_weights import (
    HostOffload,
    expert_share_on_host,
    host_weights_bytes,
    layer_share_on_host,
    remaining_on_accelerators,
)
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.options import requested_settings
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import (
    confidence_margins,
    enumerate_allowed_plans,
    machines_within_constraints,
    replica_equivalence_key,
)
from app.sizing.snapshot import Catalog
from app.sizing.words import product_name
from app.sizing.workload import InferenceWorkload

# Parts that an engine can compute from host memory: none, routed experts before layers, layers only, experts only.
OFFLOAD_TARGETS: tuple[tuple[str, ...], ...] = ((), ("experts", "layers"), ("layers",), ("experts",))
EXPERTS_FIRST, LAYERS, EXPERTS = 1, 2, 3
# Tolerance for a share that a client sends back with the digits of a JSON number.


def plans_to_serve(search: Search[InferenceWorkload]) -> Plans:
    """All plans that the search evaluates, including those with weights in host memory."""
    return with_host_weights(search, enumerate_allowed_plans(search))


def with_host_weights(
    search: Search[InferenceWorkload],
    plans: Plans,
    fixed: Deployment | None = None,
) -> Plans:
    """The plans, with part of the weights in host memory where needed or requested.

    A requested share applies to every plan whose engine supports it. Without one, weights go to host memory only on
    accelerators where no plan within the limits fits, and only for a handful of concurrent requests or a requested
    engine.

    Raises Conflict if the requested share is impossible.
    """
    share = None if fixed is None else fixed.weights_on_host
    if share == 0 or search.workload.single_pass or not len(plans):
        if share:
            raise Conflict("weights_on_host is supported only for models that generate tokens. Omit it or set it to 0.")
        return plans
    place = offload_targets(plans, search.catalog)
    able = (place > 0) & can_offload(plans)
    if share is not None:
        return with_requested_share(
            plans, place, able, share, search.catalog, search.question.assumptions.without_recording
        )
    named = fixed is not None and fixed.engine is not None
    if not (search.workload.is_personal or named) or not able.any():
        return plans
    return with_least_share(search, plans, place, able, fixed)


def note_host_assumptions(plans: Plans, assumed: Assumptions) -> None:
    """Record the assumptions that an answer uses if it keeps weights in host memory."""
    if plans.offloads_weights.any():
        for name in (*names_in("host"), "host_memory_share"):
            getattr(assumed, name)


def offload_targets(plans: Plans, catalog: Catalog) -> Codes:
    """What each plan's engine computes from host memory: an index into OFFLOAD_TARGETS."""
    return np.array([OFFLOAD_TARGETS.index(engine_named(name).on_host) for name in catalog.engines])[plans.engine]


def can_offload(plans: Plans) -> Mask:
    """Whether a plan can offload: its accelerators have their own memory and a host, and the replica uses one
    machine.
    """
    types, row = plans.types.table, plans.accelerator
    own = ~(types.unified | types.processor | types.whole_machine)[row]
    able: Mask = own & (plans.accelerators_per_replica <= plans.accelerators_per_node) & (plans.data_parallel == 1)
    return able


def with_requested_share(
    plans: Plans, place: Codes, able: Mask, share: float, catalog: Catalog, assumed: Assumptions
) -> Plans:
    """Plans with the requested share in host memory, for the engines and accelerators that support it."""
    if not able.any():
        able_engines = ", ".join(product_name(name) for name in catalog.engines if engine_named(name).on_host)
        raise Conflict(
            "weights_on_host: none of these engines can compute weights from host memory with this accelerator. "
            f"These engines can: {able_engines}. "
            "The accelerator needs its own memory, and a replica must fit into one machine with data_parallel 1."
        )
    routed = plans.expert_bytes / plans.weights_bytes
    whole = able & ((place != EXPERTS) | (share <= routed * (1 + ROUNDING)))
    if not whole.any():
        most = float(routed[able].max())
        raise Conflict(
            f"weights_on_host: this engine offloads only routed experts. Set weights_on_host to at most {most:.3f}."
        )
    plans, place = plans.take(whole), place[whole]
    with suspend_recording():
        on = build_host_offload(plans, place, np.full(len(plans), share), catalog, assumed)
    return split_weights(plans, np.arange(len(plans)), on)


def with_least_share(
    search: Search[InferenceWorkload],
    plans: Plans,
    place: Codes,
    able: Mask,
    fixed: Deployment | None,
) -> Plans:
    """Plans with the least share in host memory that makes them fit, on accelerators where nothing else fits.

    Something else fits if a plan without offloading fits and stays within the limits.
    """
    kind, assumed = serving_backend(search.workload), search.question.assumptions.without_recording
    first, index = distinct_rows(replica_equivalence_key(plans, search.catalog))
    unique = plans.take(first)
    settings = Settings() if fixed is None else requested_settings(fixed, unique, search.workload.redundancy)
    with suspend_recording():
        memory = kind.estimate_memory(search.workload, unique, assumed, settings, confidence_margins(search, unique))
    fits = memory.fits[index]
    fits_without = np.zeros(len(search.catalog.accelerators), dtype=bool)
    within = machines_within_constraints(search.question.constraints, plans, plans.nodes_per_replica)
    fits_without[plans.accelerator[fits & within]] = True
    rows = np.flatnonzero(able & ~fits & ~fits_without[plans.accelerator])
    wanted = max(1.0, search.workload.in_flight) if search.workload.is_personal else 1.0
    with suspend_recording():
        lacking, place = plans.take(rows), place[rows]
        share = least_host_weight_share(search.workload, lacking, memory.take(index[rows]), place, wanted, assumed)
        on = build_host_offload(lacking, place, share, search.catalog, assumed)
    if fixed is None:
        roomy = np.flatnonzero(on.weights_bytes <= on.room_bytes)
        rows, on = rows[roomy], on.take(roomy)
    return split_weights(plans, rows, on) if len(rows) else plans


def least_host_weight_share(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    place: Codes,
    wanted: float,
    assumed: Assumptions,
) -> Column:
    """Least share of the weights, in whole layers, to offload so that the weights and the cache of `wanted` sequences
    fit.

    If that is not enough, the largest share that the engine can offload.
    """
    model, each = workload.model, plans.accelerators_per_replica
    weights, experts = plans.weights_bytes, plans.expert_bytes
    cache = memory.longest_sequence_bytes + (wanted - 1.0) * memory.held_bytes_per_sequence
    short = memory.needed_bytes - memory.longest_sequence_bytes + cache - memory.usable_bytes
    moe_layers, layers = max(1.0, float(model.moe_layers)), max(1.0, float(model.num_layers))
    by_experts = experts * assumed.weights_load_overhead / each / moe_layers  # bytes freed per layer of experts
    count = np.where(by_experts > 0, np.ceil(short / np.maximum(by_experts, 1.0)), 0.0)
    count = np.where(place == LAYERS, 0.0, np.clip(count, 0.0, moe_layers))
    rest = np.where(place == LAYERS, weights, weights - experts)
    by_layer = (rest * assumed.weights_load_overhead / each + cache) / layers
    deep = np.clip(np.ceil((short - count * by_experts) / by_layer), 0.0, layers)
    deep = np.where(place == EXPERTS, 0.0, deep)
    share: Column = (count / moe_layers * experts + deep / layers * rest) / weights
    return np.clip(share, 0.0, 1.0)


def build_host_offload(
    plans: Plans, place: Codes, share: Column, catalog: Catalog, assumed: Assumptions
) -> HostOffload:
    """Placement in host memory for a share of the weights."""
    weights, experts, first = plans.weights_bytes, plans.expert_bytes, place != LAYERS
    of_experts = expert_share_on_host(share, weights, experts, first)
    of_layers = np.where(place == EXPERTS, 0.0, layer_share_on_host(share, weights, experts, first))
    room, socket, flops, link = host_resources(plans, catalog, assumed)
    return HostOffload(
        weights_share=share,
        layers_share=of_layers,
        experts_share=of_experts,
        weights_bytes=host_weights_bytes(of_experts, of_layers, weights, experts),
        dense_bytes=plans.streamed_bytes * of_layers,
        routed_bytes=experts * of_experts,
        room_bytes=room,
        bytes_per_s=socket * assumed.host_bandwidth_fraction,
        socket_bytes_per_s=socket,
        flops_per_s=flops,
        link_bytes_per_s=link,
    )


def split_weights(plans: Plans, rows: Codes, on: HostOffload) -> Plans:
    """The plans, with part of the weights of some rows moved to host memory."""
    everywhere = with_rows(HostOffload.without_offload(len(plans)), rows, on)
    return replace(
        plans,
        weights_bytes=plans.weights_bytes - everywhere.weights_bytes,
        expert_bytes=remaining_on_accelerators(plans.expert_bytes, everywhere.experts_share),
        streamed_bytes=remaining_on_accelerators(plans.streamed_bytes, everywhere.layers_share),
        on_host=everywhere,
    )


def host_resources(plans: Plans, catalog: Catalog, assumed: Assumptions) -> tuple[Column, Column, Column, Column]:
    """Host resources of a replica: memory, B; its data-sheet bandwidth, B/s; compute, FLOP/s; bandwidth to the
    accelerators, B/s.

    The accelerators of a machine share its host evenly, even if some are idle. A rented accelerator has a part of a
    server's host.
    """
    offered, node, count = plans.machines, plans.node, plans.accelerators_per_node
    part = plans.accelerators_per_replica / count
    listing = offered.table.listing[offered.rows]
    desk = node.workstation & plans.types.table.desktop[plans.accelerator]
    has = np.where(node.on_prem, part, np.minimum(1.0, assumed.rented_host_share * count) * part)
    socket = host_socket_bytes_per_s(catalog, listing, desk, assumed) * has
    flops = np.where(desk, assumed.desktop_host_tflops, assumed.server_host_tflops) * 1e12 * has
    slot = plans.types.table.slot_bytes_per_s[plans.accelerator] * plans.tensor_parallel * assumed.host_link_fraction
    link = np.minimum(np.where(slot > 0, slot, 1.0), np.maximum(socket, 1.0))
    return usable_host_memory_bytes(plans, listing < 0, desk, assumed) * part, socket, flops, link


def usable_host_memory_bytes(plans: Plans, unsold: Mask, desk: Mask, assumed: Assumptions) -> Column:
    """Memory of a plan's machine that weights and cache may fill.

    It is the machine's listed memory, or the usual amount if none is listed. Machines assembled from parts get the
    largest memory that is usually built in.
    """
    table, rows, count = plans.machines.table, plans.machines.rows, plans.accelerators_per_node
    own = table.ram_bytes[rows]
    most = np.where(desk & (count <= 4), assumed.desktop_host_most_gib, assumed.server_host_most_gib) * GIB
    usual = np.where(np.isnan(own), count * plans.memory_bytes * assumed.host_memory_ratio, own)
    built = unsold | ~np.isnan(table.parts.memory_bytes[rows])
    return np.where(built, np.maximum(usual, most), usual) * assumed.host_memory_share
