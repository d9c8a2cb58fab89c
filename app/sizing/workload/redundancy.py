"""What a service is to survive: how many failure domains may be lost, and over how many zones it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from app.errors import Unanswerable

REDUNDANCIES = ("none", "n+1", "n+2", "2n")


class FailureDomain(StrEnum):
    """What is lost at once; each holds those before it."""

    ACCELERATOR = "accelerator"
    MACHINE = "machine"
    ZONE = "zone"


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Failure domains that may be lost, any of them, with enough left for the peak; 2n keeps twice as much besides.

    Over several zones any one of them may be lost too, whatever the domain. Without redundancy zones only spread.
    """

    spare: int = 0
    double: bool = False
    zones: int = 1
    domain: FailureDomain = FailureDomain.MACHINE

    @classmethod
    def named(cls, label: str, *, zones: int = 1, domain: str | None = None) -> Redundancy:
        """none, n+1, n+2 or 2n of accelerators, machines (where none is named) or zones.

        Raises Unanswerable where no zone would be left.
        """
        spare = int(label.removeprefix("n+")) if label.startswith("n+") else 0
        of = FailureDomain(domain or FailureDomain.MACHINE)
        found = cls(spare=spare, double=label == "2n", zones=zones, domain=of)
        if found.lost and of is FailureDomain.ZONE and zones <= found.lost:
            raise Unanswerable(
                f"Redundancy {label} with failure_domain zone leaves no zone of {zones}: ask for zones "
                f"{found.lost + 1} or more, or for failure_domain machine."
            )
        return found

    @property
    def label(self) -> str:
        return "2n" if self.double else f"n+{self.spare}" if self.spare else "none"

    @property
    def lost(self) -> int:
        """Domains that may be lost at once."""
        return 1 if self.double else self.spare

    @property
    def machines_lost(self) -> int:
        """Machines that may be lost at once."""
        return 0 if self.domain is FailureDomain.ACCELERATOR else self.lost

    @property
    def zones_lost(self) -> int:
        """Zones that may be lost at once: as many as asked where they are the domain, else one of several."""
        if self.domain is FailureDomain.ZONE:
            return self.lost
        return min(1, self.lost) if self.zones > 1 else 0

    def with_spare(self, spare: int) -> Redundancy:
        """The same zones with another number of domains to lose; of machines where there are too few zones."""
        few = self.domain is FailureDomain.ZONE and self.zones <= spare
        return replace(self, spare=spare, double=False, domain=FailureDomain.MACHINE if few else self.domain)
