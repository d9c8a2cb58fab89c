"""Errors of layouts that are compared but not fitted: data-parallel ranks and split pools, by accelerator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.sizing.accuracy import errors_of
from app.sizing.evidence import Compared
from calibration.serving.cases import ServingCase
from calibration.serving.split import SplitCase

RANKS, POOLS = "data-parallel ranks", "split pools"
ALL_ACCELERATORS = "all"


@dataclass(frozen=True, slots=True)
class Layout:
    """Errors of a layout for sources left out; `bias` is the median of predicted over measured."""

    layout: str
    accelerator: str
    quantity: str
    rows: int
    median: float
    p90: float
    bias: float


def layout_of(case: ServingCase | SplitCase) -> str | None:
    """The layout of a case; None if it is neither of the two."""
    if isinstance(case, SplitCase):
        return POOLS
    return RANKS if case.ranks > 1 else None


def ratios_of(found: Mapping[str, Compared]) -> dict[str, float]:
    """Predicted over measured of one run, by quantity.

    Throughput that is not published follows from Little's law: requests in flight divided by the time of a request.
    """
    ratios = {c.kind: c.held_out / c.measured for c in found.values()}
    if "throughput" not in ratios and {"ttft_s", "tpot_s"} <= set(found):
        first, token = found["ttft_s"], found["tpot_s"]
        later = token.setting.output_tokens - 1
        whole = first.measured + later * token.measured
        ratios["throughput"] = whole / (first.held_out + later * token.held_out)
    return ratios


def by_layout(cases: Iterable[ServingCase | SplitCase], compared: Iterable[Compared]) -> list[Layout]:
    """Errors of every such layout, over all accelerators and for each."""
    layouts = {case.id: layout for case in cases if (layout := layout_of(case)) is not None}
    runs: dict[str, dict[str, Compared]] = defaultdict(dict)
    for c in compared:
        if c.measurement in layouts:
            runs[c.measurement][c.metric] = c
    ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for measurement, found in runs.items():
        accelerator = next(iter(found.values())).setting.accelerator
        for quantity, ratio in ratios_of(found).items():
            for where in (ALL_ACCELERATORS, accelerator):
                ratios[layouts[measurement], where, quantity].append(ratio)
    return [layout_row(key, found) for key, found in sorted(ratios.items())]


def layout_row(key: tuple[str, str, str], ratios: Sequence[float]) -> Layout:
    errors = errors_of(ratios, [1.0] * len(ratios))
    return Layout(*key, len(ratios), round(errors.median, 4), round(errors.p90, 4), round(errors.bias, 4))
