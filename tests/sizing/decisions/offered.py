"""Machines that tests of decisions start from."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.acquisition import describe_sold_machines
from app.sizing.decisions.machines import Candidates, find_candidates
from app.sizing.decisions.ownership import Parts
from app.sizing.decisions.places import UNKNOWN_GRID
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.tables import Machines
from app.sizing.question import Constraints, Deployment, Economics
from app.sizing.snapshot import Catalog
from tests.examples import col
from tests.sizing.small import SMALL


def machines(**columns: Any) -> Candidates:
    """Machines of eight, linked and networked alike; a test gives the columns it is about."""
    n = max([len(v) for v in columns.values()], default=2)

    def of(name: str, value: float) -> Any:
        return np.array(columns.get(name, [value] * n))

    node = Machines(
        accelerator=of("accelerator", 0),
        accelerators_per_node=of("accelerators_per_node", 8.0),
        share=of("share", 1.0),
        memory_bytes=of("memory_bytes", 80e9),
        link=of("link", 2),
        link_bytes_per_s=of("link_bytes_per_s", 450e9),
        scale_up_domain=of("scale_up_domain", 8.0),
        network_bytes_per_s=of("network_bytes_per_s", 50e9),
        power_w=of("power_w", 10_000.0),
        on_prem=np.zeros(n, dtype=bool),
        workstation=np.zeros(n, dtype=bool),
    )
    return Candidates(
        machine=np.arange(n),
        listing=np.arange(n),
        node=node,
        spot=columns.get("spot", np.zeros(n, dtype=bool)),
        by_the_hour=np.isnan(of("purchase_usd", np.nan)),
        installed=columns.get("installed", np.zeros(n, dtype=bool)),
        usd_per_hour=of("usd_per_hour", 40.0),
        purchase_usd=of("purchase_usd", np.nan),
        draw_w=of("draw_w", 7500.0),
        rated_w=of("rated_w", 10_000.0),
        ram_bytes=of("ram_bytes", 2e12),
        vcpus=of("vcpus", np.nan),
        grid=np.array(columns.get("grid", [UNKNOWN_GRID] * n)),
        parts=columns.get("parts", Parts.empty_rows(n)),
    )


RENTED_AND_OWNED = machines(
    accelerator=[0, 1],
    usd_per_hour=col(40, 16),
    purchase_usd=col(np.nan, 300_000),
    draw_w=col(7500, 7000),
    rated_w=col(10_000, 9000),
)


def asked(
    *,
    of: Catalog = SMALL,
    fixed: Deployment | None = None,
    pricing: tuple[PricingModel, ...] | None = None,
    economics: Economics = Economics(),  # noqa: B008  (frozen)
    zones: int = 1,
    reads_host: bool = False,
    today: str = "",
    serves_many: bool = False,
    **constraints: Any,
) -> tuple[Candidates, Rejections]:
    """What the small catalogue offers a caller."""
    rejections = Rejections(of.accelerators)
    given: dict[str, Any] = {} if pricing is None else {"pricing": pricing}
    given |= {"fixed": fixed, "zones": zones, "reads_host": reads_host, "today": today, "serves_many": serves_many}
    found = find_candidates(of, Constraints(**constraints), economics, Assumptions(), rejections, **given)
    return found, rejections


def names(found: Candidates, of: Catalog = SMALL) -> set[str]:
    """What was offered, as 'accelerator provider price': the cheapest of every machine."""
    return {
        f"{s.accelerator.slug} {s.provider} {usd:.4g}"
        for s, usd in zip(describe_sold_machines(of, found), found.usd_per_hour.tolist(), strict=True)
    }
