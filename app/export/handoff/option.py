"""One ranked option as hand-off files read it: of its stored answer, and of what was kept beside that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import NotFound, Unanswerable
from app.sizing.hardware.benchmarks import Places, Server

Document = Mapping[str, Any]


class NothingKept(Unanswerable):
    """An answer from before starts were kept beside answers."""

    code = "no-start-kept"


class UnknownOption(NotFound):
    code = "unknown-rank"


@dataclass(frozen=True, slots=True)
class Group:
    """Replicas of one kind, or a run. `machines` are those of one replica, `machine_accelerators` the accelerators of
    one of them, of which a replica takes `per_machine`.
    """

    role: str
    software: str
    version: str | None
    replicas: int
    machines: int
    server: Server | None
    load: str  # what measures it
    places: Places
    sku: str
    accelerator: str
    vendor: str
    machine_accelerators: int
    provider: str | None
    region: str | None
    pricing_model: str | None
    instance_type: str | None
    named_machine: bool  # whether the instance type is one that its seller's own tools know

    @property
    def accelerators(self) -> int:
        """Accelerators of one replica."""
        return int(str(self.places["accelerators"]))

    @property
    def per_machine(self) -> int:
        """Accelerators that a replica takes of each of its machines."""
        return -(-self.accelerators // self.machines)

    @property
    def model(self) -> str:
        """A repository, or a path to what its user makes or finds."""
        return str(self.places["model"])

    @property
    def pooled(self) -> bool:
        """Whether it is one of two pools."""
        return self.role in ("prefill", "decode")

    def whole(self, name: str, default: int = 1) -> int:
        """A number of the places."""
        found = self.places.get(name)
        return default if found is None else int(str(found))


@dataclass(frozen=True, slots=True)
class Option:
    """One ranked option."""

    answer: str
    rank: int
    snapshot: str
    as_of: str
    groups: tuple[Group, ...]
    deployment: Document
    memory: Document
    performance: Document
    day: Document | None = None  # of the first rank alone

    @property
    def trains(self) -> bool:
        """Whether it is a run that trains, and no service."""
        return self.groups[0].role == "train"

    @property
    def software(self) -> str:
        """What all of it is started with."""
        return self.groups[0].software

    @property
    def header(self) -> tuple[str, ...]:
        """What every file says of itself."""
        return (
            f"Headroom {self.answer}, rank {self.rank}, catalogue {self.snapshot}, {self.as_of}.",
            "An estimate, not a guarantee: run the benchmark before relying on it.",
        )


def option_of(answer: Document, supply: Document, rank: int) -> Option:
    """One rank of a stored answer. Raises UnknownOption and NothingKept."""
    ranked = answer["recommendations"]
    if not 1 <= rank <= len(ranked):
        told = f"It has ranks 1 to {len(ranked)}." if ranked else "Nothing is recommended there."
        raise UnknownOption(f"This answer has no rank {rank}. {told}")
    if "starts" not in supply:
        raise NothingKept("This answer was stored before starts were kept beside answers; post its request again.")
    found, lots = ranked[rank - 1], supply["ranks"][rank - 1]
    starts = supply["starts"][rank - 1]
    deployment = found["deployment"]
    pools = deployment.get("pools", {})
    groups = tuple(
        group_of(start, lot, pools.get(start["role"], deployment)) for start, lot in zip(starts, lots, strict=True)
    )
    return Option(
        answer=answer["id"],
        rank=rank,
        snapshot=answer["catalog"]["snapshot"],
        as_of=answer["as_of"],
        groups=groups,
        deployment=deployment,
        memory=found.get("memory") or {},
        performance=found.get("performance") or {},
        day=answer.get("day") if rank == 1 else None,
    )


def group_of(start: Document, lot: Document, deployment: Document) -> Group:
    """Replicas of one kind with the machines they stand on."""
    offer = deployment.get("offer", {})
    return Group(
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
