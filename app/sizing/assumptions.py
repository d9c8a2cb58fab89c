"""Every number we chose rather than derived: value, plausible range, unit and reason.

All of them can be overridden per request and are echoed in the answer when they mattered.
Achieved fractions of hardware rates are not here: they are coefficients, rows of the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from app.errors import Unanswerable


def assumption(value: float, *, low: float, high: float, unit: str, reason: str) -> Any:
    """A chosen number with its range; the range is what an override may be."""
    return field(default=value, metadata={"low": low, "high": high, "unit": unit, "reason": reason})


@dataclass(frozen=True, slots=True)
class Assumed:
    """One assumption as it is echoed."""

    name: str
    value: float | str
    unit: str
    reason: str


@dataclass(frozen=True, slots=True)
class Assumptions:
    # memory
    batch_memory_fraction: float = assumption(
        0.92, low=0.5, high=0.98, unit="1", reason="share of a device's memory that single-pass serving takes"
    )
    small_engine_memory_fraction: float = assumption(
        0.98,
        low=0.5,
        high=1.0,
        unit="1",
        reason="share of a device's memory that llama.cpp-like engines fill: they allocate what they need",
    )
    unified_memory_fraction: float = assumption(
        0.75, low=0.5, high=0.95, unit="1", reason="share of unified memory the system leaves to the accelerator"
    )
    visible_memory_fraction: float = assumption(
        0.994,
        low=0.9,
        high=1.0,
        unit="1",
        reason="memory an engine sees over what the driver reports (H100: 79.18 of 79.65 GiB)",
    )
    unreported_memory_fraction: float = assumption(
        0.98,
        low=0.9,
        high=1.0,
        unit="1",
        reason="memory an engine sees over the label where no driver reading is known (RTX 4090: 23.5 of 24 GiB)",
    )
    weights_load_overhead: float = assumption(
        1.005,
        low=1.0,
        high=1.15,
        unit="1",
        reason="weights after loading over their counted bytes: start-up logs of vLLM",
    )
    activation_workspace_factor: float = assumption(
        1.5, low=1.0, high=4.0, unit="1", reason="measured serving workspace over the sum of live tensors"
    )
    runtime_overhead_gib: float = assumption(
        0.25,
        low=0.05,
        high=4.0,
        unit="GiB",
        reason="runtime context of a serving engine, per device (start-up logs: 0.05 to 0.35)",
    )
    graph_overhead_gib: float = assumption(
        1.0,
        low=0.0,
        high=5.0,
        unit="GiB",
        reason="captured graphs per device, where the engine takes them from its share",
    )
    parallel_overhead_gib: float = assumption(
        1.0,
        low=0.0,
        high=4.0,
        unit="GiB",
        reason="communication buffers per device once tensor parallel exceeds 1 (start-up logs: 0.2 to 2.1)",
    )
    small_runtime_overhead_gib: float = assumption(
        0.6, low=0.1, high=2.0, unit="GiB", reason="runtime of llama.cpp, MLX and ahead-of-time compiled engines"
    )
    max_batched_tokens: float = assumption(
        8192,
        low=256,
        high=65536,
        unit="tokens",
        reason="tokens of one engine step (chunked prefill budget) on devices of 70 GiB and more",
    )
    max_batched_tokens_small_device: float = assumption(
        2048, low=256, high=65536, unit="tokens", reason="tokens of one engine step on smaller devices (vLLM's default)"
    )
    max_batched_tokens_small_engine: float = assumption(
        512,
        low=32,
        high=8192,
        unit="tokens",
        reason="tokens of one step of llama.cpp-like engines (llama.cpp's physical batch)",
    )
    max_sequences: float = assumption(
        1024,
        low=1,
        high=4096,
        unit="sequences",
        reason="most sequences an engine runs at once on devices of 70 GiB and more (vLLM's default)",
    )
    max_sequences_small_device: float = assumption(
        256,
        low=1,
        high=4096,
        unit="sequences",
        reason="most sequences an engine runs at once on smaller devices (vLLM's default)",
    )
    max_sequences_small_engine: float = assumption(
        16, low=1, high=256, unit="sequences", reason="slots at which llama.cpp-like engines stop gaining"
    )
    # traffic
    target_utilization: float = assumption(
        0.7,
        low=0.05,
        high=1.0,
        unit="1",
        reason="share of its capacity within the SLO that a replica is planned to carry",
    )
    busy_hour_factor: float = assumption(
        3.0, low=1.0, high=20.0, unit="1", reason="busiest minute over the mean of the users' stated hourly rate"
    )
    average_to_peak: float = assumption(
        0.4, low=0.01, high=1.0, unit="1", reason="mean over peak load where the mean is not given; prices tokens"
    )
    default_ttft_ms: float = assumption(
        2000, low=10, high=600000, unit="ms", reason="usual limit of an interactive service where none is given"
    )
    default_tpot_ms: float = assumption(
        100, low=1, high=60000, unit="ms", reason="usual limit (10 tokens/s, above reading speed) where none is given"
    )
    default_e2e_ms: float = assumption(
        1000, low=1, high=600000, unit="ms", reason="usual limit of a single-pass request where none is given"
    )
    # training
    default_training_days: float = assumption(
        30, low=0.01, high=3650, unit="days", reason="deadline of a pre-training run where none is given"
    )
    default_fine_tuning_hours: float = assumption(
        24, low=0.1, high=8760, unit="hours", reason="deadline of a fine-tuning run where none is given"
    )
    interruptions_per_accelerator_day: float = assumption(
        4.74e-4, low=0, high=0.01, unit="1/day", reason="419 in 54 days on 16,384 accelerators (Llama 3 405B)"
    )
    restart_minutes: float = assumption(
        10,
        low=0,
        high=240,
        unit="min",
        reason="detection, replacement and reload after an interruption",
    )
    network_oversubscription: float = assumption(
        1.0,
        low=1.0,
        high=32.0,
        unit="1",
        reason="what network cards could carry over what the switches between machines do carry",
    )
    spot_interruptions_per_machine_day: float = assumption(
        0.1,
        low=0,
        high=24,
        unit="1/day",
        reason="machines of spot capacity taken back: about 5 % in a few hours to 20 % in a month",
    )
    checkpoint_write_gb_per_s_per_machine: float = assumption(
        1.2,
        low=0.01,
        high=50,
        unit="GB/s",
        reason="storage takes from one machine: BLOOM 57.5 GB/s from 48 machines, others 1.9 each",
    )
    checkpoint_write_gb_per_s_limit: float = assumption(
        2000,
        low=0.05,
        high=100000,
        unit="GB/s",
        reason="most that storage takes from all machines: Llama 3's sustained 2 TB/s",
    )
    checkpoint_copy_gb_per_s: float = assumption(
        10, low=0.5, high=200, unit="GB/s", reason="an accelerator's states to host memory"
    )
    checkpoint_pause_s: float = assumption(
        1,
        low=0,
        high=600,
        unit="s",
        reason="time all ranks wait for one another around a checkpoint (0.2 to 0.5 s in memory)",
    )
    retained_checkpoints: float = assumption(3, low=1, high=1000, unit="checkpoints", reason="kept at a time")
    validation_overhead: float = assumption(
        0.005, low=0, high=0.5, unit="1", reason="validation over training time (MLPerf's frequent ones: 0.09 to 0.16)"
    )
    host_memory_per_accelerator_gib: float = assumption(
        16, low=1, high=512, unit="GiB", reason="framework process and data loader of one accelerator on its host"
    )
    training_memory_margin: float = assumption(
        0.98,
        low=0.7,
        high=1.0,
        unit="1",
        reason="share of device memory that training may fill; fragmentation is apart",
    )
    dataset_bytes_per_token: float = assumption(
        4, low=1, high=16, unit="B", reason="tokenised corpus on disk: 4-byte token ids"
    )
    # operations and money
    model_load_gb_per_s: float = assumption(
        2.0, low=0.05, high=100, unit="GB/s", reason="rate at which a node reads weights from storage"
    )
    engine_start_s: float = assumption(
        45, low=1, high=1800, unit="s", reason="process start, compilation and graph capture of a serving engine"
    )
    list_price_position: float = assumption(
        1.0, low=0.0, high=1.0, unit="1", reason="where in its list-price range a part is bought: the cautious end"
    )
    workstation_host_usd: float = assumption(
        2000, low=300, high=20000, unit="USD", reason="desktop host around consumer and workstation cards"
    )
    server_host_usd: float = assumption(
        25000,
        low=3000,
        high=150000,
        unit="USD",
        reason="server around data-centre accelerators (CPUs, RAM, NICs, chassis)",
    )
    host_power_w: float = assumption(
        150, low=20, high=1000, unit="W", reason="least host power per accelerator where the system's own is not known"
    )
    host_power_fraction: float = assumption(
        0.75,
        low=0.1,
        high=1.5,
        unit="1",
        reason="host, network and fans over the accelerators' own power: median of 25 eight-way servers' ratings",
    )
    socket_power_w: float = assumption(
        350, low=50, high=800, unit="W", reason="power of a device whose own is not published"
    )
    load_power_fraction: float = assumption(
        0.75, low=0.2, high=1.0, unit="1", reason="mean draw under load over the rated power"
    )
    maintenance_fraction_per_year: float = assumption(
        0.05, low=0, high=0.3, unit="1/year", reason="support and spares, share of the purchase price per year"
    )
    facility_usd_per_kw_month: float = assumption(
        184, low=0, high=600, unit="USD/kW/month", reason="colocation of servers, power billed apart (CBRE, H2 2024)"
    )
    cluster_network_usd_per_accelerator: float = assumption(
        4250,
        low=0,
        high=15000,
        unit="USD",
        reason="switches, cables and optics of an owned multi-node cluster (34,000 per 8)",
    )

    def with_overrides(self, overrides: Mapping[str, float]) -> Assumptions:
        """These assumptions with some replaced.

        Raises Unanswerable for a name that is none of them or a value outside its range.
        """
        known = {f.name: f for f in fields(self)}
        for name, value in overrides.items():
            if name not in known:
                raise Unanswerable(f"There is no assumption named {name[:60]!r}. Accepted: {', '.join(sorted(known))}.")
            low, high = known[name].metadata["low"], known[name].metadata["high"]
            if not low <= value <= high:
                raise Unanswerable(f"{name} must be from {low:g} to {high:g} {known[name].metadata['unit']}.")
        return replace(self, **dict(overrides))

    def echo(self, *names: str) -> tuple[Assumed, ...]:
        """The named assumptions as the answer shows them."""
        known = {f.name: f for f in fields(self)}
        return tuple(
            Assumed(n, getattr(self, n), known[n].metadata["unit"], known[n].metadata["reason"]) for n in names
        )
