"""Published scale-ups: one run on growing numbers of accelerators, with measured and predicted efficiency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.sizing.evidence import Compared

# Columns that must agree for two rows to be one run at two sizes.
SAME_RUN_COLUMNS = (
    "source_key",
    "source_ref",
    "model",
    "accelerator",
    "precision",
    "framework",
    "framework_version",
    "method",
    "seq_len",
    "tp",
    "pp",
    "cp",
    "ep",
    "micro_batch",
    "zero_stage",
    "activation_checkpointing",
)


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """Speed per accelerator at one size, relative to the smallest size of the run."""

    measurement: str
    base: str
    size_factor: float  # accelerators relative to the base
    measured: float
    predicted: float
    held_out: float

    @property
    def points_off(self) -> float:
        """Difference between the unseen prediction and the measurement, percentage points."""
        return 100 * abs(self.held_out - self.measured)


def scale_ups(rows: Iterable[Mapping[str, Any]], compared: Iterable[Compared]) -> list[ScaleUp]:
    """Every larger size of every run that was published at several sizes."""
    found = {c.measurement: c for c in compared if c.metric == "training_tokens_per_s"}
    runs: dict[tuple[str, ...], list[tuple[float, Compared]]] = defaultdict(list)
    for row in rows:
        if row["id"] in found:
            runs[tuple(row[k] for k in SAME_RUN_COLUMNS)].append((float(row["num_accelerators"]), found[row["id"]]))
    ups = []
    for sizes in runs.values():
        sizes.sort(key=lambda s: (s[0], s[1].measurement))
        fewest, base = sizes[0]
        for count, at in sizes[1:]:
            if count > fewest:
                ups.append(
                    ScaleUp(
                        at.measurement,
                        base.measurement,
                        count / fewest,
                        at.measured / base.measured,
                        at.predicted / base.predicted,
                        at.held_out / base.held_out,
                    )
                )
    return ups


def summarize_scale_ups(ups: list[ScaleUp]) -> dict[str, float]:
    """Number of pairs, and percentage points by which unseen predictions of efficiency are off."""
    off = np.array([u.points_off for u in ups])
    return {
        "pairs": len(ups),
        "median_points": round(float(np.median(off)), 2),
        "p90_points": round(float(np.quantile(off, 0.9)), 2),
    }
