"""Ranked option as deployment files read it, from its stored answer and supply record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import NotFound, Unanswerable
from app.sizing.hardware.benchmarks import Places, Server

Document = Mapping[str, Any]


class StartNotStored(Unanswerable):
    """Raised for an answer of an older version, which stored no start commands."""

    code = "no-start-kept"


class UnknownOption(NotFound):
    code = "unknown-rank"


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """Identical replicas of a service, or a run.

    A replica uses `per_machine` accelerators on each of its `machines`.
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

    @property
    def accelerators(self) -> int:
        """Accelerators per replica."""
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
        """Whether the group is one of two pools."""
        return self.role in ("prefill", "decode")

    def int_place(self, name: str, default: int = 1) -> int:
        """Integer value of a place; the default if it has none."""
        value = self.places.get(name)
        return default if value is None else int(str(value))


@dataclass(frozen=True, slots=True)
class Option:
    """A ranked option of a stored answer."""

    answer: str
    rank: int
    snapshot: str
    as_of: str
    groups: tuple[ReplicaGroup, ...]
    deployment: Document
    memory: Document
    performance: Document
    day: Document | None = None  # hours of a day with autoscaling; only the first rank has it

    @property
    def is_training(self) -> bool:
        """Whether the option is a training run, not a service."""
        return self.groups[0].role == "train"

    @property
    def software(self) -> str:
        """Engine or framework of all groups."""
        return self.groups[0].software

    @property
    def header_lines(self) -> tuple[str, ...]:
        """Header lines of every file: source of the file and a caution."""
        return (
            f"Headroom {self.answer}, rank {self.rank}, catalog {self.snapshot}, {self.as_of}.",
            "This is an estimate, not a guarantee. Run the benchmark before you rely on it.",
        )


def load_option(answer: Document, supply: Document, rank: int) -> Option:
    """One rank of a stored answer. Raises UnknownOption and StartNotStored."""
    ranked = answer["recommendations"]
    if not 1 <= rank <= len(ranked):
        known = f"It has ranks 1 to {len(ranked)}." if ranked else "It recommends no option."
        raise UnknownOption(f"This answer has no rank {rank}. {known}")
    if "starts" not in supply:
        raise StartNotStored("This answer was stored by a version that kept no start commands. Send its request again.")
    option, lots = ranked[rank - 1], supply["ranks"][rank - 1]
    starts = supply["starts"][rank - 1]
    deployment = option["deployment"]
    pools = deployment.get("pools", {})
    groups = tuple(
        build_group(start, lot, pools.get(start["role"], deployment)) for start, lot in zip(starts, lots, strict=True)
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
        machine_accelerators=max(1, lot.get("accelerators", 1) // max(1, lot.get("machines", 1))),
        provider=offer.get("provider"),
        region=offer.get("region"),
        pricing_model=offer.get("pricing_model"),
        instance_type=offer.get("instance_type"),
        named_machine="system" in deployment,
    )
