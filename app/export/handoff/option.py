"""Ranked option as deployment files read it, files with safe YAML quoting, and the replica range over a day."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from app.errors import Unanswerable
from app.export.lines import StoredOption, option_name, select_options
from app.sizing.hardware.benchmarks import Places, Server

Document = Mapping[str, Any]


class StartNotStored(Unanswerable):
    """Raised for an answer of an older version, which stored no start commands."""

    code = "no-start-kept"


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """Identical replicas of a service, or a run.

    A replica uses `per_machine` accelerators on each of its `machines`. A rack of several hosts counts as several.
    """

    role: str  # serve, prefill, decode or train
    software: str  # engine or framework
    version: str | None  # version of the software
    replicas: int  # replicas with spares
    machines: int  # machines per replica
    server: Server | None
    load: str  # template of the benchmark command
    places: Places  # values for the templates of the start and benchmark commands
    sku: str
    accelerator: str  # display name
    vendor: str
    machine_accelerators: int  # accelerators per machine
    provider: str | None
    region: str | None
    pricing_model: str | None
    instance_type: str | None
    named_machine: bool  # whether the seller's own tools know the instance type
    machine_vcpus: float | None = None  # processor threads per machine
    machine_memory_gib: float | None = None  # host memory per machine

    @property
    def accelerators(self) -> int:
        return int(str(self.places["accelerators"]))

    @property
    def per_machine(self) -> int:
        """Accelerators that a replica uses on each of its machines."""
        return -(-self.accelerators // self.machines)

    @property
    def model(self) -> str:
        """Repository of the model, or a path that the user fills."""
        return str(self.places["model"])

    @property
    def is_pool(self) -> bool:
        return self.role in ("prefill", "decode")

    def int_place(self, name: str, default: int = 1) -> int:
        """Integer value of a place; the default if it has none."""
        value = self.places.get(name)
        return default if value is None else int(str(value))


@dataclass(frozen=True, slots=True)
class Option:
    """A ranked option of a stored answer, or a group of its mixed fleet."""

    answer: str
    rank: int  # 0 for the mixed fleet
    snapshot: str
    as_of: str
    groups: tuple[ReplicaGroup, ...]
    deployment: Document
    memory: Document
    performance: Document
    day: Document | None = None  # hours of a day with autoscaling; only the first rank has it
    zones: int = 1  # zones over which the replicas are spread
    volume_claim: str | None = None  # PersistentVolumeClaim that keeps the weights; without it, a folder of each node
    handoff: Document = field(default_factory=dict)  # data and checkpoints of a run, as the request names them
    fleet_group: str = ""  # name of the group of a mixed fleet
    share: float = 1.0  # share of the requests that the group carries
    checked: str = ""  # sources in which the flags and settings of its software were read

    @property
    def is_training(self) -> bool:
        """Whether the option is a training run, not a service."""
        return self.groups[0].role == "train"

    @property
    def spares(self) -> int:
        """Replicas that may be lost without falling below the peak; of two pools in the pool that has fewer."""
        pools = self.deployment.get("pools", {}).values()
        return min([int(each.get("spare_replicas") or 0) for each in (pools or (self.deployment,))])

    @property
    def software(self) -> str:
        """Engine or framework of all groups."""
        return self.groups[0].software

    @property
    def name(self) -> str:
        """What the answer calls the option."""
        return option_name(self.rank) + (f", group {self.fleet_group}" if self.fleet_group else "")

    @property
    def prefill_has_stages(self) -> bool:
        """Whether the option has a prefill pool with pipeline stages."""
        return any(group.role == "prefill" and group.int_place("pipeline") > 1 for group in self.groups)

    @property
    def shared_name(self) -> str | None:
        """Name that requests use, if the pools load different weights; else the repository names the model."""
        if len({group.model for group in self.groups}) == 1:
            return None
        return str(self.groups[0].places.get("source_model") or self.groups[0].model)

    @property
    def header_lines(self) -> tuple[str, ...]:
        """Header lines of every file: source of the file, a caution, and the version that its flags are of."""
        return (
            f"Headroom {self.answer}, {self.name}, catalog {self.snapshot}, {self.as_of}.",
            "This is an estimate, not a guarantee. Run the benchmark before you rely on it.",
            *((f"Flags and settings checked in {self.checked}.",) if self.checked else ()),
        )


def load_options(answer: Document, supply: Document, rank: int, volume_claim: str | None = None) -> tuple[Option, ...]:
    """The option at a rank of a stored answer, or the groups of its mixed fleet. Raises UnknownRank and StartNotStored.

    Parameters:
        volume_claim: PersistentVolumeClaim that keeps the weights in Kubernetes.
    """
    options = []
    for place, each in enumerate(select_options(answer, supply, rank), start=1):
        group = "" if rank else f"owned-{place}" if each.owned else "added"
        options.append(load_option(answer, each, rank, volume_claim, group))
    return tuple(options)


def load_option(
    answer: Document, stored: StoredOption, rank: int, volume_claim: str | None = None, fleet_group: str = ""
) -> Option:
    """One deployment of a stored answer. Raises StartNotStored."""
    if stored.starts is None:
        raise StartNotStored("This answer was stored by a version that kept no start commands. Send its request again.")
    option, deployment = stored.option, stored.option["deployment"]
    pools = deployment.get("pools", {})
    groups = tuple(
        build_group(start, lot, pools.get(start["role"], deployment))
        for start, lot in zip(stored.starts, stored.lots, strict=True)
    )
    return Option(
        answer=answer["id"],
        rank=rank,
        snapshot=answer["catalog"]["snapshot"],
        as_of=answer["as_of"],
        groups=groups,
        deployment=deployment,
        memory=option.get("memory") or {},
        performance=option.get("performance") or {},
        day=answer.get("day") if rank == 1 else None,
        zones=int((answer.get("request", {}).get("workload", {}).get("availability") or {}).get("zones") or 1),
        volume_claim=volume_claim,
        handoff=answer.get("request", {}).get("handoff") or {},
        fleet_group=fleet_group,
        share=stored.share,
    )


def build_group(start: Document, lot: Document, deployment: Document) -> ReplicaGroup:
    """Identical replicas with their machines."""
    offer = deployment.get("offer", {})
    return ReplicaGroup(
        role=start["role"],
        software=start["software"],
        version=start.get("version"),
        replicas=start["replicas"],
        machines=start["machines"],
        server=Server(**start["server"]) if "server" in start else None,
        load=start["load"],
        places=start["places"],
        sku=lot["accelerator"]["sku"],
        accelerator=lot["accelerator"]["name"],
        vendor=lot["accelerator"]["maker"],
        machine_accelerators=max(  # chips that are rented one by one come on machines of several
            -(-int(start["places"]["accelerators"]) // start["machines"]),
            lot.get("accelerators", 1) // max(1, lot.get("machines", 1) * start.get("hosts", 1)),
        ),
        provider=offer.get("provider"),
        region=offer.get("region"),
        pricing_model=offer.get("pricing_model"),
        instance_type=offer.get("instance_type"),
        named_machine="system" in deployment,
        machine_vcpus=lot.get("machine", {}).get("vcpus"),
        machine_memory_gib=lot.get("machine", {}).get("memory_gib"),
    )


# Interfaces of the network between machines, for NCCL (and RCCL) and Gloo; they choose themselves if these are not set.
VOLTA = ("nvidia-v100", "nvidia-titan-v")


def image_for(image: str, sku: str) -> str:
    """Image with kernels for an accelerator: those of PyTorch for CUDA 12.8 have none for Volta since PyTorch 2.8.

    Check:
        >>> image_for("pytorch/pytorch:2.10.0-cuda12.8-cudnn9-devel", "nvidia-v100-pcie-16gb")
        'pytorch/pytorch:2.10.0-cuda12.6-cudnn9-devel'
    """
    return image.replace("-cuda12.8-", "-cuda12.6-") if sku.startswith(VOLTA) else image


# Images on Debian's Python refuse to install into it otherwise (PEP 668).
PIP_INSTALL = "PIP_BREAK_SYSTEM_PACKAGES=1 pip install"
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
NETWORKS = f"If the machines have several networks, set {' and '.join(INTERFACES)} to the interface that connects them."
SHELL, YAML, JSON, TEXT = "application/x-sh", "application/yaml", "application/json", "text/plain"
MAX_LABEL_LENGTH = 40  # of the 63 characters of a DNS label; the rest is reserved for suffixes
PLAIN_TEXT = re.compile(r"[A-Za-z/_][\w./:@=+,-]*", re.ASCII)
# Words that some YAML parsers do not read as text.
RESERVED_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))


@dataclass(frozen=True, slots=True)
class File:
    """A file of a deployment package."""

    name: str  # file name without a directory
    media_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Handoff:
    """Deployment package: the files of a target, notes about the remaining manual steps, and all possible targets."""

    target: str
    rank: int
    files: tuple[File, ...]
    notes: tuple[str, ...]
    targets: tuple[str, ...] = ()  # targets that can start the option


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # PyYAML has no types
    """YAML dumper that quotes text unless every parser reads it as text, and writes several lines as a block."""

    ignore_aliases = staticmethod(lambda _: True)  # repeated values are written out, not aliased


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = PLAIN_TEXT.fullmatch(text) is not None and text.lower() not in RESERVED_WORDS and not text.endswith(":")
    style = "|" if "\n" in text else None if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_text(*documents: Mapping[str, Any]) -> str:
    """YAML documents of one file, with their keys in order."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))


def add_header(header: Sequence[str], text: str) -> str:
    """Text after a header of comment lines, for shell and YAML."""
    return "".join(f"# {line}\n" for line in header) + text


def build_script(header: Sequence[str], *lines: str) -> str:
    """Bash script that stops at the first failure."""
    return "#!/usr/bin/env bash\n" + add_header(header, "\n".join(("set -euo pipefail", *lines)) + "\n")


def dns_label(name: str, *behind: str) -> str:
    """A name as a DNS label, with suffixes that make it unique.

    Check:
        >>> dns_label("meta-llama/Llama-3.1-70B", "prefill"), dns_label("1e3"), dns_label("模型")
        ('llama-3-1-70b-prefill', 'm-1e3', 'model')
    """
    base = re.sub(r"[^a-z0-9]+", "-", name.rsplit("/", 1)[-1].lower()).strip("-") or "model"
    base = base if base[0].isalpha() else f"m-{base}"
    return "-".join((base[:MAX_LABEL_LENGTH].rstrip("-"), *behind))


def read_script(name: str) -> str:
    """Text of a script that goes along unchanged."""
    return resources.files("app.export.handoff").joinpath("scripts", name).read_text(encoding="utf-8")


WINDOW = "2m"  # window of the request rate
MAX_SCALE_DOWN_DELAY_S = 3600  # longest stabilization window that a HorizontalPodAutoscaler accepts


@dataclass(frozen=True, slots=True)
class ReplicaRange:
    """Replica range for a day, with the peak rate and the start time of a replica."""

    min_replicas: int  # fewest replicas
    max_replicas: int  # most replicas, with spares
    spares: int  # spare replicas
    peak_per_s: float  # requests per second in the busiest hour
    start_s: float  # cold start of a replica in seconds

    @property
    def rate_without_spares(self) -> float:
        """Requests per second per replica at the peak, without the spares.

        It is rounded down, so that the peak runs all planned replicas.
        """
        return _round_down(self.peak_per_s / max(1, self.max_replicas - self.spares))

    @property
    def rate_with_spares(self) -> float:
        """Requests per second per replica at the peak, over all replicas, for tools without spares."""
        return _round_down(self.peak_per_s / self.max_replicas)

    @property
    def scale_down_delay_s(self) -> int:
        """Seconds to wait before scaling down: the start time of a replica.

        No replica is released sooner than it could restart.
        """
        return min(MAX_SCALE_DOWN_DELAY_S, math.ceil(self.start_s))


def replica_range(option: Option) -> ReplicaRange | None:
    """Replica range of an option; None without a day, and for two pools, which scale on different metrics."""
    day = option.day
    if not day or len(option.groups) > 1:
        return None
    least, most = max(1, int(day["autoscaled"]["least_replicas"])), option.groups[0].replicas
    peak = max(float(hour["requests_per_s"]) for hour in day["hours"])
    if least >= most or peak <= 0:
        return None
    return ReplicaRange(
        min_replicas=least,
        max_replicas=most,
        spares=option.spares,
        peak_per_s=peak,
        start_s=float(day["cold_start"]["seconds"]),
    )


def scaling_notes(option: Option) -> tuple[str, ...]:
    """Notes for the operator about autoscaling."""
    day, scaling = option.day, replica_range(option)
    if day and len(option.groups) > 1:
        return ("Two pools scale on different metrics, so these files run all replicas that the peak needs.",)
    if scaling is None or day is None:
        return ()
    notes = [
        f"Autoscaling runs {scaling.min_replicas} to {scaling.max_replicas} replicas, one per "
        f"{scaling.rate_without_spares:g} requests/s."
    ]
    if day["cheaper"] == "fixed":
        notes.append(f"A fixed fleet of {scaling.max_replicas} replicas costs no more than autoscaling.")
    if not day["scale_out"]["fast_enough"]:
        notes.append(
            f"A replica takes {scaling.start_s:.0f} s to start, too long for this day's ramp. Start replicas ahead of "
            f"the ramp, or run all {scaling.max_replicas}."
        )
    return tuple(notes)


def _round_down(rate: float) -> float:
    """A rate rounded down to three significant digits.

    Check:
        >>> _round_down(5.7149), _round_down(0.0066666), _round_down(1234.5)
        (5.71, 0.00666, 1230.0)
    """
    digits = 2 - math.floor(math.log10(rate))
    return round(math.floor(rate * 10.0**digits + 1e-9) / 10.0**digits, max(0, digits))
