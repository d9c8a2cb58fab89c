"""Why accelerator types cannot train a model: no layout, memory or time, with the shortfall at the confidence asked."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask
from app.sizing.decisions.rejections import Rejections
from app.sizing.result import Reached
from app.sizing.training.doubt import memory_factor
from app.sizing.training.run import Run, host_holds
from app.sizing.training.smallest import Attempts
from app.sizing.units import GIB, SECONDS_PER_DAY
from app.sizing.workload import TrainingWorkload


def turn_down(
    workload: TrainingWorkload,
    accelerator: Codes,
    tried: Attempts,
    judged: Codes,
    run: Run,
    holds: Mask,
    assumed: Assumptions,
    rejections: Rejections,
) -> None:
    """Types none of whose layouts divides the batch, fits, or is in time: of those of the layouts; `judged` are the
    attempts of the runs.
    """
    rejections.without(
        accelerator,
        tried.layouts.accelerator,
        "no_layout",
        "No division of the global batch over {name} fills whole machines.",
    )
    memory = tried.memory
    needed, hosted = memory.total_bytes, host_holds(tried.layouts, memory, assumed)
    fitting, likely = tried.held & hosted, memory.fits & hosted
    needed[judged], fitting[judged], likely[judged] = run.memory.total_bytes, False, False
    fitting[judged[holds]] = likely[judged[holds]] = True
    _too_large(tried, needed, fitting, likely, rejections)
    _too_slow(tried, fitting, workload.deadline_s, rejections)


def _too_large(tried: Attempts, needed_bytes: Column, fitting: Mask, likely: Mask, rejections: Rejections) -> None:
    """Types that do not fit; `likely` ones are predicted to, and may well not."""
    accelerator, margins, memory = tried.layouts.accelerator, tried.layouts.stack.margins, tried.memory
    gone = rejections.left_without(accelerator, likely & fitting, likely)
    rejections.lost(
        accelerator[gone],
        fitting[gone],
        code="out_of_memory",
        text=f"{{name}} is expected to fit, but needs {{needed}} of {{available}} GiB on {{each}} "
        f"with {margins.asked:.0%} confidence.",
        needed=needed_bytes[gone] * memory_factor(tried.layouts.take(gone), memory.take(gone), margins.asked) / GIB,
        available=memory.capacity_bytes[gone] / GIB,
        unit="gib",
        count=tried.accelerators[gone],
        reached=Reached.MEMORY,
    )
    rejections.lost(
        accelerator,
        fitting,
        code="out_of_memory",
        text="{name} needs {needed} GiB on {each} at its best layout; {available} may be used.",
        needed=needed_bytes / GIB,
        available=memory.usable_bytes / GIB,
        unit="gib",
        count=tried.accelerators,
        reached=Reached.MEMORY,
    )


def _too_slow(tried: Attempts, fitting: Mask, deadline_s: float, rejections: Rejections) -> None:
    """Types that are late; those that are expected in time, and may well not be, are told apart."""
    margins, expected_s = tried.layouts.stack.margins, tried.wall_s
    wall_s, accelerator = expected_s * margins.time_factor, tried.layouts.accelerator
    timely = wall_s <= deadline_s
    late = "needs {needed} on {on} at best"
    for rows, text in (
        (
            fitting & (expected_s <= deadline_s),
            f"{{name}} is expected in time, but {late} with {margins.asked:.0%} confidence; "
            "{available} may be taken.",
        ),
        (fitting, f"{{name}} {late}; {{available}} may be taken."),
    ):
        gone = rejections.left_without(accelerator, rows & timely, rows)
        rejections.lost(
            accelerator[gone],
            timely[gone],
            code="too_slow",
            text=text,
            needed=wall_s[gone] / SECONDS_PER_DAY,
            available=np.full(len(gone), deadline_s / SECONDS_PER_DAY),
            unit="days",
            count=tried.accelerators[gone],
            reached=Reached.SPEED,
        )
