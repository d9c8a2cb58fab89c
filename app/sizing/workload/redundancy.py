"""Redundancy of a service: how many failure domains it can lose, and over how many zones it is spread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from app.errors import Unanswerable

REDUNDANCIES = ("none", "n+1", "n+2", "2n")


class FailureDomain(StrEnum):
    """What fails at once. Each domain contains those before it."""

    ACCELERATOR = "accelerator"
    MACHINE = "machine"
    ZONE = "zone"


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Failure domains that can be lost while the rest still carries the peak. 2n doubles the capacity as well.

    With several zones, any one of them can be lost too, whatever the domain. Without redundancy, zones only spread
    the replicas.
    """

    spare: int = 0  # failure domains that can be lost
    double: bool = False  # twice the capacity (2n)
    zones: int = 1  # zones over which the replicas are spread
    domain: FailureDomain = FailureDomain.MACHINE

    @classmethod
    def from_label(cls, label: str, *, zones: int = 1, domain: str | None = None) -> Redundancy:
        """Build from a label: none, n+1, n+2 or 2n of accelerators, machines (the default) or zones.

        Raises Unanswerable if no zone would be left.
        """
        spare = int(label.removeprefix("n+")) if label.startswith("n+") else 0
        failure_domain = FailureDomain(domain or FailureDomain.MACHINE)
        redundancy = cls(spare=spare, double=label == "2n", zones=zones, domain=failure_domain)
        if redundancy.domains_lost and failure_domain is FailureDomain.ZONE and zones <= redundancy.domains_lost:
            raise Unanswerable(
                f"Redundancy {label} with failure_domain zone leaves no zone of {zones}. Set zones to at least "
                f"{redundancy.domains_lost + 1}, or set failure_domain to machine."
            )
        return redundancy

    @property
    def label(self) -> str:
        return "2n" if self.double else f"n+{self.spare}" if self.spare else "none"

    @property
    def domains_lost(self) -> int:
        """Failure domains that can be lost at once."""
        return 1 if self.double else self.spare

    @property
    def machines_lost(self) -> int:
        """Machines that can be lost at once."""
        return 0 if self.domain is FailureDomain.ACCELERATOR else self.domains_lost

    @property
    def zones_lost(self) -> int:
        """Zones that can be lost at once: the requested number if zones are the domain, else one if there are
        several.
        """
        if self.domain is FailureDomain.ZONE:
            return self.domains_lost
        return min(1, self.domains_lost) if self.zones > 1 else 0

    def with_spare(self, spare: int) -> Redundancy:
        """The same zones with another number of failure domains to lose; machines are the domain if there are too few
        zones.
        """
        few = self.domain is FailureDomain.ZONE and self.zones <= spare
        return replace(self, spare=spare, double=False, domain=FailureDomain.MACHINE if few else self.domain)
