"""Assumptions about training runs: interruptions, checkpoints, memory and data."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class TrainingAssumptions:
    # Interruptions and checkpoints
    interruptions_per_accelerator_day: float = assumption(
        4.74e-4,
        low=0,
        high=0.01,
        unit="1/day",
        reason="unexpected interruptions per accelerator and day",
        source="Llama 3: 419 in 54 days on 16,384 accelerators",
        as_of="2024-07",
    )
    restart_minutes: float = assumption(
        10,
        low=0,
        high=240,
        unit="min",
        reason="restart after a failure: detection, replacement, reload",
        source="assumed: automated",
    )
    network_oversubscription: float = assumption(
        1.0,
        low=1.0,
        high=32.0,
        reason="rate of the network cards over rate of the switches",
        source="assumed: non-blocking",
    )
    spot_interruptions_per_machine_day: float = assumption(
        0.1,
        low=0,
        high=24,
        unit="1/day",
        reason="spot interruptions per machine and day",
        source="assumed: between 5 % in hours and 20 % per month",
        as_of="2026-10",
    )
    checkpoint_write_gb_per_s_per_machine: float = assumption(
        1.2,
        low=0.01,
        high=50,
        unit="GB/s",
        reason="checkpoint write rate per machine",
        source="BLOOM: 57.5 GB/s from 48 machines",
        as_of="2022-07",
    )
    checkpoint_write_gb_per_s_limit: float = assumption(
        2000,
        low=0.05,
        high=100000,
        unit="GB/s",
        reason="largest total checkpoint write rate of the storage",
        source="Llama 3: 2 TB/s",
        as_of="2024-07",
    )
    checkpoint_copy_gb_per_s: float = assumption(
        10,
        low=0.5,
        high=200,
        unit="GB/s",
        reason="rate of copying states to host memory",
        source="assumed: half of PCIe 4.0 x16",
    )
    checkpoint_pause_s: float = assumption(
        1,
        low=0,
        high=600,
        unit="s",
        reason="pause of all ranks for each checkpoint",
        source="assumed: 0.2 to 0.5 s for in-memory checkpoints",
    )
    retained_checkpoints: float = assumption(
        3,
        low=1,
        high=1000,
        unit="checkpoints",
        reason="checkpoints kept at one time",
        source="assumed: two earlier ones to fall back to",
    )
    validation_overhead: float = assumption(
        0.005,
        low=0,
        high=0.5,
        reason="validation time over training time",
        source="assumed; MLPerf: 0.09 to 0.16",
    )
    host_memory_per_accelerator_gib: float = assumption(
        16,
        low=1,
        high=512,
        unit="GiB",
        reason="host memory of framework and data loader per accelerator",
        source="assumed",
    )
    training_memory_margin: float = assumption(
        0.98,
        low=0.7,
        high=1.0,
        reason="share of device memory that training may use",
        source="assumed",
    )
    dataset_bytes_per_token: float = assumption(
        4,
        low=1,
        high=16,
        unit="B",
        reason="storage per token of the tokenized corpus",
        source="32-bit token ids",
    )
    dataset_bytes_per_sample: float = assumption(
        110e3,
        low=100,
        high=1e9,
        unit="B",
        reason="storage per training sample",
        source="ImageNet: 138 GB for 1.28 million images",
        as_of="2015-04",
    )
    shortest_checkpoint_interval_s: float = assumption(
        120,
        low=1,
        high=3600,
        unit="s",
        reason="shortest time between checkpoints",
        source="assumed",
    )
    longest_checkpoint_interval_s: float = assumption(
        3600,
        low=60,
        high=86400,
        unit="s",
        reason="longest time between checkpoints",
        source="assumed: at most one hour of work is lost",
    )
    checkpoint_write_window: float = assumption(
        0.25,
        low=0.01,
        high=1,
        reason="share of the interval in which a checkpoint is written",
        source="assumed",
    )
    most_lost_share: float = assumption(
        0.95,
        low=0.1,
        high=0.99,
        reason="largest lost share of time that is reported",
        source="assumed",
    )
    scaling_knee: float = assumption(
        0.7,
        low=0.1,
        high=1,
        reason="marginal return above which more accelerators still pay",
        source="assumed",
    )
    # Step and memory
    published_stage_unevenness: float = assumption(
        1.1,
        low=1,
        high=10,
        reason="slowest pipeline stage over the mean, already in the fit",
        source="published pipelines: 1.0 to 1.1",
    )
    overlap_exponent: float = assumption(
        4,
        low=1,
        high=16,
        reason="sharpness of the overlap of compute and communication",
        source="assumed, together with the fit",
    )
    pcie_copy_fraction: float = assumption(
        0.7,
        low=0.2,
        high=1,
        reason="rate of offload copies over the PCIe rate",
        source="assumed: pinned memory",
    )
    host_memory_share: float = assumption(
        0.8,
        low=0.1,
        high=1,
        reason="share of host memory for offloaded states",
        source="assumed",
    )
    host_process_gib: float = assumption(
        3,
        low=0.5,
        high=16,
        unit="GiB",
        reason="host memory of one training process",
        source="assumed: usual resident size of a process",
    )
    offloaded_layers_near: float = assumption(
        2,
        low=1,
        high=16,
        unit="layers",
        reason="layers of offloaded activations still on the device",
        source="Megatron: double buffering",
        as_of="2026-08",
    )
