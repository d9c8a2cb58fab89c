"""Reasons why accelerator types cannot train a model: no layout, memory or time, with the shortfall."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask
from app.sizing.decisions.rejections import Rejections
from app.sizing.result import FilterStage
from app.sizing.training.doubt import memory_factor
from app.sizing.training.run import Run, host_fits_memory
from app.sizing.training.smallest import Attempts
from app.sizing.units import GIB, SECONDS_PER_DAY
from app.sizing.words import percent
from app.sizing.workload import TrainingWorkload


def reject_untrainable(
    workload: TrainingWorkload,
    accelerator: Codes,
    attempts: Attempts,
    attempt_rows: Codes,
    run: Run,
    run_fits: Mask,
    assumed: Assumptions,
    rejections: Rejections,
) -> None:
    """Reject accelerator types without any layout that divides the batch, fits and meets the deadline.

    `attempt_rows` holds the attempts that the runs in `run` belong to.
    """
    rejections.reject_if_none_left(
        accelerator,
        attempts.layouts.accelerator,
        "no_layout",
        "The global batch cannot be divided evenly over whole machines of {name}.",
    )
    memory = attempts.memory
    needed, hosted = memory.total_bytes, host_fits_memory(attempts.layouts, memory, assumed)
    fitting, likely = attempts.fits_at_confidence & hosted, memory.fits & hosted
    needed[attempt_rows], fitting[attempt_rows], likely[attempt_rows] = run.memory.total_bytes, False, False
    fitting[attempt_rows[run_fits]] = likely[attempt_rows[run_fits]] = True
    _reject_too_large(attempts, needed, fitting, likely, hosted, rejections)
    _reject_too_slow(attempts, fitting, workload.deadline_s, rejections)


def _reject_too_large(
    attempts: Attempts, needed_bytes: Column, fitting: Mask, likely: Mask, hosted: Mask, rejections: Rejections
) -> None:
    """Reject types that do not fit.

    Types that fit by the median prediction (`likely`), or that only lack host memory (not `hosted`), get texts of their
    own.
    """
    accelerator, margins, memory = attempts.layouts.accelerator, attempts.layouts.stack.margins, attempts.memory
    unexplained = rejections.rows_of_eliminated_types(accelerator, likely & fitting, likely)
    rejections.reject_with_shortfall(
        accelerator[unexplained],
        fitting[unexplained],
        code="out_of_memory",
        text=f"{{name}} needs {{needed}} of {{available}} GiB on {{each}} ({percent(margins.asked)} confidence). "
        "The median prediction fits.",
        needed=needed_bytes[unexplained]
        * memory_factor(attempts.layouts.take(unexplained), memory.take(unexplained), margins.asked)
        / GIB,
        available=memory.capacity_bytes[unexplained] / GIB,
        unit="gib",
        count=attempts.largest_accelerators[unexplained],
        reached=FilterStage.MEMORY,
    )
    small_hosts = (needed_bytes <= memory.usable_bytes) & ~hosted
    unexplained = rejections.rows_of_eliminated_types(accelerator, fitting, small_hosts)
    rejections.reject_with_shortfall(
        accelerator[unexplained],
        fitting[unexplained],
        code="out_of_memory",
        text="{name} needs {needed} of {available} GiB on {each}, but its hosts lack memory for the offloaded states.",
        needed=needed_bytes[unexplained] / GIB,
        available=memory.usable_bytes[unexplained] / GIB,
        unit="gib",
        count=attempts.largest_accelerators[unexplained],
        reached=FilterStage.MEMORY,
    )
    rejections.reject_with_shortfall(
        accelerator,
        fitting,
        code="out_of_memory",
        text="{name} needs {needed} GiB on {each} with the closest layout; {available} GiB are usable.",
        needed=needed_bytes / GIB,
        available=memory.usable_bytes / GIB,
        unit="gib",
        count=attempts.largest_accelerators,
        reached=FilterStage.MEMORY,
    )


def _reject_too_slow(attempts: Attempts, fitting: Mask, deadline_s: float, rejections: Rejections) -> None:
    """Reject types that miss the deadline; types whose median prediction meets it get a text of their own."""
    margins, expected_s = attempts.layouts.stack.margins, attempts.wall_s
    wall_s, accelerator = expected_s * margins.time_factor, attempts.layouts.accelerator
    timely = wall_s <= deadline_s
    late = "{name} needs at least {needed} on {on}"
    for rows, text in (
        (
            fitting & (expected_s <= deadline_s),
            f"{late} ({percent(margins.asked)} confidence); the deadline is {{available}}. "
            "The median prediction meets the deadline.",
        ),
        (fitting, f"{late}; the deadline is {{available}}."),
    ):
        unexplained = rejections.rows_of_eliminated_types(accelerator, rows & timely, rows)
        rejections.reject_with_shortfall(
            accelerator[unexplained],
            timely[unexplained],
            code="too_slow",
            text=text,
            needed=wall_s[unexplained] / SECONDS_PER_DAY,
            available=np.full(len(unexplained), deadline_s / SECONDS_PER_DAY),
            unit="days",
            count=attempts.largest_accelerators[unexplained],
            reached=FilterStage.SPEED,
        )
