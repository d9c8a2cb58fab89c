"""What /estimate answers for a case of the grid: the same request, the same code, without the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from app.api.questions import build_estimate_question
from app.api.schemas.requests import EstimateRequest
from app.catalog.snapshot import CatalogStore
from app.sizing.estimate import estimate_deployment
from app.sizing.result import DeviceMemory
from calibration.tracing.requests import body_of, is_expressible
from calibration.tracing.rows import Case, rows_in
from calibration.tracing.setups import Traced

GRID = Path(__file__).parents[2] / "reference" / "traced_memory.csv"
DAY = date(2026, 11, 22)


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with its traced and its estimated memory."""

    case: Case
    traced: Traced
    memory: DeviceMemory

    @property
    def allocated_bytes(self) -> float:
        """Estimated, without the context and what the allocator keeps."""
        return self.memory.total_bytes - self.memory.overhead_bytes

    @property
    def error(self) -> float:
        return self.allocated_bytes / self.traced.peak_bytes - 1


def memory_of(case: Case, catalog_store: CatalogStore) -> DeviceMemory:
    """The memory that /estimate answers for a case."""
    request = EstimateRequest.model_validate(body_of(case))
    directory = catalog_store.directory()
    question, deployment = build_estimate_question(request, directory, catalog_store, DAY)
    memory = estimate_deployment(question, deployment, directory.catalog).memory
    assert memory is not None, case
    return memory


def judged(catalog_store: CatalogStore, path: Path = GRID) -> Iterator[Judged]:
    """Every row of the grid that a request can say."""
    for case, traced in rows_in(path):
        if is_expressible(case):
            yield Judged(case, traced, memory_of(case, catalog_store))


def median_and_p90(rows: Iterable[Judged]) -> tuple[float, float]:
    """Of absolute errors."""
    median, p90 = np.quantile([abs(row.error) for row in rows], (0.5, 0.9))
    return float(median), float(p90)
