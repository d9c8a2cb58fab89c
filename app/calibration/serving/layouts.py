"""Layouts whose results are compared and not fitted: data-parallel ranks, and pools of their own, by accelerator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.calibration.report import errors_of
from app.calibration.serving.cases import ServingCase
from app.calibration.serving.split import SplitCase
from app.sizing.evidence import Compared

RANKS, POOLS = "data-parallel ranks", "split pools"
EVERY = "all"


@dataclass(frozen=True, slots=True)
class Layout:
    """How far results of a layout are off for sources left out; `bias` is the median of predicted over measured."""

    layout: str
    accelerator: str
    quantity: str
    rows: int
    median: float
    p90: float
    bias: float


def layout_of(case: ServingCase | SplitCase) -> str | None:
    """The layout of a case; None where it is a usual one."""
    if isinstance(case, SplitCase):
        return POOLS
    return RANKS if case.ranks > 1 else None


def ratios_of(found: Mapping[str, Compared]) -> dict[str, float]:
    """Predicted over measured of one run; throughput that is not published by Little's law: so many in flight over the
    time of a request.
    """
    ratios = {c.kind: c.held_out / c.measured for c in found.values()}
    if "throughput" not in ratios and {"ttft_s", "tpot_s"} <= set(found):
        first, token = found["ttft_s"], found["tpot_s"]
        later = token.setting.output_tokens - 1
        whole = first.measured + later * token.measured
        ratios["throughput"] = whole / (first.held_out + later * token.held_out)
    return ratios


def by_layout(cases: Iterable[ServingCase | SplitCase], compared: Iterable[Compared]) -> list[Layout]:
    """Errors of every such layout, over all accelerators and of each."""
    layouts = {case.id: layout for case in cases if (layout := layout_of(case)) is not None}
    runs: dict[str, dict[str, Compared]] = defaultdict(dict)
    for c in compared:
        if c.measurement in layouts:
            runs[c.measurement][c.metric] = c
    ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for measurement, found in runs.items():
        accelerator = next(iter(found.values())).setting.accelerator
        for quantity, ratio in ratios_of(found).items():
            for where in (EVERY, accelerator):
                ratios[layouts[measurement], where, quantity].append(ratio)
    return [layout_row(key, found) for key, found in sorted(ratios.items())]


def layout_row(key: tuple[str, str, str], ratios: Sequence[float]) -> Layout:
    """Errors of these ratios."""
    errors = errors_of(ratios, [1.0] * len(ratios))
    return Layout(*key, len(ratios), round(errors.median, 4), round(errors.p90, 4), round(errors.bias, 4))
