"""All assumed values of the engine. `data/assumptions.csv` has one row for each.

A row states the area, the value, the range that an override may set, the unit ("1" for a ratio), the reason (the
meaning in at most 60 characters, which answers show), the source (what was read, or "assumed" and the basis) and the
month of the source or of the assumption.

A request can override every assumption. An answer lists the assumptions that it used; `RecordingAssumptions` records
them. Achieved shares of hardware rates are not assumptions: they are coefficients in the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from app.errors import Unanswerable
from app.sizing.facts import InvalidFact, parse_number, read_rows, require_source

# Declares a field whose default value and facts stand in its row.
ROW: Any = None

Class = TypeVar("Class", bound=type)


ROWS = {row["name"]: row for row in read_rows("assumptions.csv")}


def names_in(area: str) -> tuple[str, ...]:
    """Names of the assumptions of an area, in the order of their rows."""
    return tuple(name for name, row in ROWS.items() if row["area"] == area)


def with_rows(cls: Class) -> Class:
    """The class with a default value and metadata from its row for each annotated name. Apply it below `@dataclass`.

    Raises InvalidFact for a name without a row, a row without a source or date, and a figure that is no number.
    """
    for name in cls.__annotations__:
        if name not in ROWS:
            raise InvalidFact(f"assumptions.csv: {name!r} has no row.")
        row, where = ROWS[name], f"assumptions.csv, {name}"
        require_source(row, where=where)
        facts = {key: _parse_figure(row[key], where) for key in ("value", "low", "high")}
        default = facts.pop("value")
        texts = {key: row[key] for key in ("unit", "reason", "source", "as_of")}
        setattr(cls, name, field(default=default, metadata=facts | texts))
    return cls


def _parse_figure(cell: str, where: str) -> float:
    """A whole number stays one, so that answers show it without decimals."""
    return int(cell) if cell.isdecimal() else parse_number(cell, where=where)


@dataclass(frozen=True, slots=True)
class Assumed:
    """One figure as an answer shows it: an assumption, or a value derived from the request.

    `asked` is true if the request sets the figure; otherwise `source` says where it comes from. `bounds` are the
    smallest and largest accepted value, None for a text.
    """

    name: str
    value: float | str
    unit: str
    reason: str
    source: str
    bounds: tuple[float, float] | None = None
    asked: bool = False

    def relaxed(self, times: float) -> Assumed:
        """An assumed limit that is a number of times the usual one."""
        return replace(self, value=float(self.value) * times, reason=f"{self.reason}, {times:g} times the usual")


@dataclass(frozen=True, slots=True)
@with_rows
class Assumptions:
    """All assumptions; read each one as `assumed.name`. The comments name the areas of their rows."""

    # diagnosis
    diagnosed_slower_share: float = ROW
    diagnosed_least_share: float = ROW
    diagnosed_full_share: float = ROW
    diagnosed_idle_share: float = ROW
    diagnosed_hot_c: float = ROW
    # packing
    default_loaded_adapters: float = ROW
    packed_memory_share: float = ROW
    packed_time_share: float = ROW
    packed_types: float = ROW
    packing_step_share: float = ROW
    slice_memory_fraction: float = ROW
    slice_compute_fraction: float = ROW
    # model: sample models of unknown layer structure
    sample_flops_per_activation: float = ROW
    sample_kept_over_live: float = ROW
    sample_layers: float = ROW
    # workload: traffic and limits
    confidence: float = ROW
    target_utilization: float = ROW
    busy_hour_factor: float = ROW
    average_to_peak: float = ROW
    default_ttft_ms: float = ROW
    default_ttft_ms_per_prompt_token: float = ROW
    default_tpot_ms: float = ROW
    personal_ttft_ms: float = ROW
    personal_tpot_ms: float = ROW
    default_e2e_ms: float = ROW
    default_picture_e2e_ms: float = ROW
    default_clip_e2e_ms: float = ROW
    default_real_time_factor: float = ROW
    most_personal_in_flight: float = ROW
    least_server_power_w: float = ROW
    session_turn_gap_s: float = ROW
    trace_window_s: float = ROW
    # Lengths
    default_input_tokens: float = ROW
    default_output_tokens: float = ROW
    length_p95_to_mean: float = ROW
    longest_percentile: float = ROW
    context_percentile: float = ROW
    default_percentile: float = ROW
    # Training runs
    default_sequence_tokens: float = ROW
    longest_sequence_over_context: float = ROW
    default_batch_tokens_at_1b: float = ROW
    default_batch_exponent: float = ROW
    near_batch_share: float = ROW
    default_fine_tuning_batch_sequences: float = ROW
    default_batch_samples: float = ROW
    default_lora_rank: float = ROW
    default_training_days: float = ROW
    default_fine_tuning_hours: float = ROW
    # machine: machines without a quote
    desktop_chassis_usd: float = ROW
    tower_chassis_usd: float = ROW
    small_chassis_usd: float = ROW
    large_chassis_usd: float = ROW
    hot_chassis_factor: float = ROW
    air_cooled_card_w: float = ROW
    cores_per_accelerator: float = ROW
    desktop_core_usd: float = ROW
    server_core_usd: float = ROW
    host_memory_ratio: float = ROW
    desktop_memory_usd_per_gib: float = ROW
    server_memory_usd_per_gib: float = ROW
    # Racks and networks
    rack_usd_per_kw: float = ROW
    network_usd_per_gbit: float = ROW
    switch_ports: float = ROW
    two_tier_network_factor: float = ROW
    three_tier_network_factor: float = ROW
    network_card_usd_per_gbit: float = ROW
    # host: memory of assumed hosts
    desktop_host_most_gib: float = ROW
    server_host_most_gib: float = ROW
    # Memory bandwidth of one socket
    desktop_host_gb_per_s: float = ROW
    server_host_gb_per_s: float = ROW
    rented_host_share: float = ROW
    host_bandwidth_fraction: float = ROW
    # Achieved matrix rate of one socket
    desktop_host_tflops: float = ROW
    server_host_tflops: float = ROW
    host_link_fraction: float = ROW
    # hardware: usable memory
    batch_memory_fraction: float = ROW
    small_engine_memory_fraction: float = ROW
    unified_memory_fraction: float = ROW
    visible_memory_fraction: float = ROW
    unreported_memory_fraction: float = ROW
    # Software
    expected_support_widening: float = ROW
    # Networks
    unknown_network_gbit_per_s: float = ROW
    # Cards in the slots of a machine
    pcie_slot_gb_per_s: float = ROW
    peerless_copies: float = ROW
    nvlink_bridges: float = ROW
    eager_launch: float = ROW
    power_limit_share: float = ROW
    power_limit_exponent: float = ROW
    power_boost_share: float = ROW
    # serving: scheduler simulation
    simulated_requests: float = ROW
    # Memory other than weights and KV cache
    memory_deviation: float = ROW
    weights_load_overhead: float = ROW
    activation_workspace_factor: float = ROW
    runtime_overhead_gib: float = ROW
    graph_overhead_gib: float = ROW
    parallel_overhead_gib: float = ROW
    pcie_parallel_overhead_gib: float = ROW
    small_runtime_overhead_gib: float = ROW
    max_sequences_small_engine: float = ROW
    # Host work per request of single-pass models
    tokeniser_tokens_per_s: float = ROW
    image_megapixels_per_s: float = ROW
    sent_image_megapixels: float = ROW
    audio_s_per_s: float = ROW
    server_request_ms: float = ROW
    server_serial_us: float = ROW
    host_work_share: float = ROW
    vcpus_per_accelerator: float = ROW
    socket_vcpus: float = ROW
    cores_per_vcpu: float = ROW
    padded_share: float = ROW
    model_load_gb_per_s: float = ROW
    engine_start_s: float = ROW
    # Limits on the plans that are judged
    overhead_memory_fraction_limit: float = ROW
    max_samples: float = ROW
    prefill_share_limit: float = ROW
    full_cache_share: float = ROW
    replica_memory_fraction: float = ROW
    # Large messages: 43 of 50 and 158 of 160 GB/s; small messages: 39 and 98 to 127 GB/s.
    exchange_bandwidth_share: float = ROW
    pipelined_chunks_per_stage: float = ROW
    least_pipelined_chunk_tokens: float = ROW
    # Measured over predicted prefill in these results: a median of 2.55 with prompts of 1,024 tokens, 1.92 (quartiles
    # 1.45 and 2.37) with 8,192. None has longer prompts. The excess grows with the prefill, so it is a factor: 0.75 s
    # (median) where less than 1 s is predicted, 1.8 s where 1 to 5 s are.
    split_first_token_factor: float = ROW
    max_nodes_per_replica: float = ROW
    # training: interruptions and checkpoints
    interruptions_per_accelerator_day: float = ROW
    restart_minutes: float = ROW
    network_oversubscription: float = ROW
    spot_interruptions_per_machine_day: float = ROW
    checkpoint_write_gb_per_s_per_machine: float = ROW
    checkpoint_write_gb_per_s_limit: float = ROW
    checkpoint_copy_gb_per_s: float = ROW
    checkpoint_pause_s: float = ROW
    retained_checkpoints: float = ROW
    validation_overhead: float = ROW
    host_memory_per_accelerator_gib: float = ROW
    training_memory_margin: float = ROW
    dataset_bytes_per_token: float = ROW
    dataset_bytes_per_sample: float = ROW
    shortest_checkpoint_interval_s: float = ROW
    longest_checkpoint_interval_s: float = ROW
    checkpoint_write_window: float = ROW
    most_lost_share: float = ROW
    scaling_knee: float = ROW
    # Step and memory
    published_stage_unevenness: float = ROW
    overlap_exponent: float = ROW
    pcie_copy_fraction: float = ROW
    host_memory_share: float = ROW
    host_process_gib: float = ROW
    offloaded_layers_near: float = ROW
    # day
    smooth_day_peak_hour: float = ROW
    # Start of a replica
    machine_start_s: float = ROW
    image_gb: float = ROW
    large_image_gb: float = ROW
    small_image_gb: float = ROW
    image_pull_gb_per_s: float = ROW
    registry_gb_per_s: float = ROW
    weight_store_gb_per_s: float = ROW
    # Scaling out and in, idle machines, failures
    autoscaler_reaction_s: float = ROW
    scale_in_delay_s: float = ROW
    scale_to_zero_after_s: float = ROW
    idle_power_share: float = ROW
    failure_detection_s: float = ROW
    # decisions: money and energy
    horizon_months: float = ROW
    electricity_usd_per_kwh: float = ROW
    pue: float = ROW
    rent_decline_per_year: float = ROW
    resale_decline_per_year: float = ROW
    # Owned machines
    list_price_position: float = ROW
    host_power_w: float = ROW
    host_power_fraction: float = ROW
    largest_host_accelerators: float = ROW
    socket_power_w: float = ROW
    load_power_fraction: float = ROW
    maintenance_fraction_per_year: float = ROW
    facility_usd_per_kw_month: float = ROW
    # answer: warnings
    headroom_utilization: float = ROW
    tail_percentile: float = ROW
    fast_ingest_gb_per_s_per_machine: float = ROW
    overkill_utilization: float = ROW
    stale_price_days: float = ROW
    usual_provider_accelerators: float = ROW
    usual_reseller_accelerators: float = ROW
    usual_broker_accelerators: float = ROW
    usual_quote_accelerators: float = ROW
    usual_workstations: float = ROW
    usual_list_accelerators: float = ROW
    deadline_nearly_used: float = ROW
    memory_nearly_full: float = ROW
    thin_margin: float = ROW
    thin_margin_growth: float = ROW
    # Suggested benchmark
    benchmark_window_min: float = ROW
    served_cache_share: float = ROW
    benchmark_warm_up_min: float = ROW
    benchmark_steps: float = ROW
    # Near ties
    near_tie_share: float = ROW
    no_recipe_saving: float = ROW
    no_result_saving: float = ROW
    few_recipes: float = ROW
    published_use_ratio: float = ROW
    # Confidence in a prediction
    same_setting_distance: float = ROW

    @classmethod
    def default_value(cls, name: str) -> float:
        """Default value of an assumption."""
        value: float = getattr(cls(), name)
        return value

    @classmethod
    def allowed_range(cls, name: str) -> tuple[float, float]:
        """Smallest and largest value that an override may set."""
        facts = BY_NAME[name].metadata
        return facts["low"], facts["high"]

    @classmethod
    def list_all(cls) -> tuple[Mapping[str, float | str], ...]:
        """Every assumption by name, with its default value, range, unit, reason, source and date."""
        ordered = sorted(fields(cls), key=lambda f: f.name)
        return tuple({"name": f.name, "value": cls.default_value(f.name), **f.metadata} for f in ordered)

    def with_overrides(self, overrides: Mapping[str, float]) -> Assumptions:
        """A copy with some values replaced.

        Raises Unanswerable for an unknown name or for a value outside its range.
        """
        known = {f.name: f for f in fields(self)}
        for name, value in overrides.items():
            if name not in known:
                raise Unanswerable(f"Unknown assumption {name[:60]!r}. Accepted: {', '.join(sorted(known))}.")
            low, high = known[name].metadata["low"], known[name].metadata["high"]
            unit = "" if known[name].metadata["unit"] == "1" else f" {known[name].metadata['unit']}"
            if not low <= value <= high:
                raise Unanswerable(f"{name} must be between {low:g} and {high:g}{unit}.")
        return replace(self, **dict(overrides))

    @property
    def without_recording(self) -> Assumptions:
        """The same values without recording of reads. Use it for trial calculations that the answer does not rest
        on.
        """
        return self

    def with_recording(self, overrides: Mapping[str, float] | None = None) -> RecordingAssumptions:
        """A copy for one answer that records which assumptions are read, with `overrides` applied."""
        given = dict(overrides or {})
        return RecordingAssumptions(self.with_overrides(given) if given else self, frozenset(given))


FIELDS = fields(Assumptions)
BY_NAME = {f.name: f for f in FIELDS}


class RecordingAssumptions(Assumptions):
    """Assumptions that record which of their fields are read.

    Their own slots start empty. The first read of a field calls `__getattr__`, which records the name and fills the
    slot, so later reads cost no more than without recording.
    """

    __slots__ = ("_asked", "_read", "_values")

    _values: Assumptions
    _asked: frozenset[str]
    _read: set[str]

    def __init__(self, values: Assumptions, asked: frozenset[str]) -> None:
        for name, value in (("_values", values), ("_asked", asked), ("_read", set())):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> float:
        value: float = getattr(self._values, name)
        self._read.add(name)
        object.__setattr__(self, name, value)
        return value

    @property
    def without_recording(self) -> Assumptions:
        """The underlying values; reads of them are not recorded."""
        return self._values

    def with_recording(self, overrides: Mapping[str, float] | None = None) -> RecordingAssumptions:
        """These assumptions themselves, with the reads recorded so far. Raises TypeError if there are overrides."""
        if overrides:
            raise TypeError("override before noting")
        return self

    @property
    def read_names(self) -> frozenset[str]:
        """Names of the fields read so far."""
        return frozenset(self._read)

    def used_assumptions(self) -> tuple[Assumed, ...]:
        """The assumptions read so far and those that the request sets, in the order of the fields."""
        wanted = self._read | self._asked
        return tuple(
            Assumed(
                f.name,
                getattr(self._values, f.name),
                f.metadata["unit"],
                f.metadata["reason"],
                f.metadata["source"],
                Assumptions.allowed_range(f.name),
                asked=f.name in self._asked,
            )
            for f in FIELDS
            if f.name in wanted
        )
