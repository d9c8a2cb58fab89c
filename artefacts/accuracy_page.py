"""docs/accuracy.md and its plots, from the committed predictions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from app.api.schemas.accuracy import DEFINITIONS
from app.calibration.back_test import Tried, back_test
from app.calibration.report import (
    FAMILY_REASONS,
    INSIDE,
    MANY,
    SURE_OF,
    TOO_FAR,
    WIDEST,
    Report,
    Slice,
    errors_of,
    link_of,
    reason_of,
    report_on,
    unsure,
)
from app.catalog.queries import calibration_notes, list_compared
from app.catalog.seed import seed
from app.db import Base, make_engine
from app.sizing.evidence import Compared
from app.sizing.question import CONFIDENCE_LEVELS
from artefacts.accuracy_plots import DOCS, NAMES, plots
from artefacts.training_sources import ASKED_MEDIAN, ASKED_P90, off

FEWEST = 20


def comparisons() -> list[Compared]:
    engine = make_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        seed(session)
        return list_compared(session)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join([" --- "] + [" ---: "] * (len(head) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def figures(s: Slice) -> list[str]:
    h, i = s.held_out, s.in_sample
    return [
        str(s.rows),
        str(s.sources),
        f"{h.median:.0%}",
        f"{h.p90:.0%}",
        f"{h.bias:.2f}",
        f"{s.intervals.coverage:.0%}",
        f"{s.intervals.width:.2f}",
        f"{s.intervals.kept:.0%}",
        f"{i.median:.0%}",
        f"{i.p90:.0%}",
    ]


HEAD = ("rows", "sources", "median", "90th pct", "bias", "in interval", "high / low", "kept", "in sample", "90th pct")


def disagreements(rows: Sequence[Compared]) -> list[list[str]]:
    """What the other sources say of a source's results: the floor of any prediction from them."""
    groups: dict[tuple[str, str, str, str], list[Compared]] = defaultdict(list)
    for r in rows:
        groups[r.kind, r.source, r.setting.engine, r.setting.family].append(r)
    found = []
    for (kind, source, engine, family), rs in groups.items():
        if len(rs) < FEWEST:
            continue
        measured = [r.measured for r in rs]
        unseen, seen = errors_of((r.held_out for r in rs), measured), errors_of((r.predicted for r in rs), measured)
        found.append(
            (
                abs(np.log(unseen.bias)),
                [NAMES[kind], source, f"{engine} on {family}", str(len(rs)), f"{unseen.bias:.2f}", f"{seen.bias:.2f}"],
            )
        )
    return [row for _, row in sorted(found, key=lambda f: -f[0])[:20]]


def worst_row(c: Compared) -> list[str]:
    link, where = link_of(c.reference), c.source
    return [
        f"{c.metric}, {c.model} on {c.setting.devices:.0f} x {c.setting.accelerator}, {c.setting.engine}",
        f"[{where}]({link})" if link else where,
        f"{c.measured:.4g}",
        f"{c.held_out:.4g}",
    ]


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def slices(found: Iterable[Slice], *, fewest: int = MANY) -> list[list[str]]:
    """Rows of a table, of slices with results enough."""
    return [[f"{NAMES[s.metric]}, {s.value}", *figures(s)] for s in found if s.rows >= fewest]


def reasons(counts: Mapping[str, int]) -> str:
    return json.dumps(counts)[1:-1].replace('"', "")


def by_slices(report: Report) -> str:
    """Errors overall, by family with the reasons of what is far off, and by the other dimensions."""
    families = report.by["accelerator_family"]
    far = [s for s in families if s.rows >= MANY and s.held_out.median > TOO_FAR]
    others = [s for d in ("engine", "format", "model_size", "load") for s in report.by[d]]
    return f"""{table(("quantity", *HEAD), [[NAMES[s.metric], *figures(s)] for s in report.overall])}

![predicted over measured](accuracy/predicted-over-measured.svg)

What the quantities are, as load testers define them:

{bullets(f"{NAMES[k]}: {text}" for k, text in DEFINITIONS.items())}

## By accelerator family

{table(("quantity and family", *HEAD), slices(families))}

![by family](accuracy/by-family.svg)

Families above {TOO_FAR:.0%} for an unseen source, and why:

{bullets(f"{NAMES[s.metric]}, {s.value} ({s.held_out.median:.0%}): {FAMILY_REASONS[s.value]}" for s in far)}

## Concurrency sweeps

Published sweeps beside the same runs simulated: as many requests, started as their source starts them, by the statistic
it publishes. The band is the 80 % interval of an unseen source.

![concurrency sweeps](accuracy/concurrency.svg)

## By engine, format, model size and load

{table(("quantity and slice", *HEAD), slices(others))}"""


SURE_HEAD = ("results", "sources", "inside", "high / low", *(f"kept at {level:.0%}" for level in CONFIDENCE_LEVELS))


def surety(s: Slice, tried: Mapping[tuple[str, str], Tried]) -> list[str]:
    """What intervals and promises of a slice were worth."""
    kept = tried[s.metric, s.value].kept
    inside, width = f"{s.intervals.coverage:.0%}", f"{s.intervals.width:.2f}"
    return [str(s.rows), str(s.sources), inside, width, *(f"{share:.0%}" for share in kept)]


def how_sure(report: Report, tried: Mapping[tuple[str, str], Tried]) -> str:
    """What an interval is, what a promise is, and what both were worth for sources that nothing had seen."""
    promised = [s for s in report.overall if (s.metric, s.value) in tried]
    families = [s for s in report.by["accelerator_family"] if s.rows >= SURE_OF and (s.metric, s.value) in tried]
    widest = ", ".join(f"{NAMES[kind].lower()} {width:g}" for kind, width in WIDEST.items())
    low, high = INSIDE
    return f"""An interval is where four fifths of what an unseen source publishes are expected: narrow beside published
results, wider with the distance to the nearest, with few sources behind it, and where no kernel tables of the maker's
own stand behind the prediction. Each result here was told its interval by a fit and by spreads that never saw its
source. "Kept at 80%" is the back-test: each result is taken as the question, sized without its source for that
confidence, and counted where what was sized would have done, which comes to the share of results no worse than the
factor that the spread asks for.

Asked are {low:.0%} to {high:.0%} inside, as much kept at 80%, and high over low of at most: {widest}.

{table(("quantity", *SURE_HEAD), [[NAMES[s.metric], *surety(s, tried)] for s in promised])}

By family, of {SURE_OF} results and more:

{table(("quantity and family", *SURE_HEAD), [[f"{NAMES[s.metric]}, {s.value}", *surety(s, tried)] for s in families])}

![share inside over width](accuracy/intervals.svg)

Families outside of that, and why:

{bullets(f"{'; '.join(who)}: {why}" for why, who in short_of(report).items())}"""


def short_of(report: Report) -> dict[str | None, list[str]]:
    """Families whose intervals fall short, by the reason."""
    found: dict[str | None, list[str]] = defaultdict(list)
    for s in unsure(report):
        found[reason_of(s)].append(f"{NAMES[s.metric]}, {s.value}")
    return found


def cache_sizes(logs: Sequence[Mapping[str, Any]]) -> str:
    """How far start-up logs are off, and the furthest of them."""
    ratios = [log["predicted_bytes"] / log["measured_bytes"] for log in logs]
    off = np.abs([ratio - 1 for ratio in ratios])
    middle, p90 = f"{np.median(off):.1%}", f"{np.quantile(off, 0.9):.1%}"
    furthest = sorted(zip(ratios, logs, strict=True), key=lambda found: -abs(found[0] - 1))[:8]
    rows = [
        [log["reference"].split("@")[0][-60:].replace("|", " "), log["model"], f"{ratio:.2f}"]
        for ratio, log in furthest
    ]
    return f"""{len(off)} logs: median error {middle}, 90th percentile {p90}. The furthest:

{table(("log", "model", "predicted over logged"), rows)}"""


def scale_ups(scaling: Mapping[str, float]) -> str:
    """What there is to say of training at several sizes."""
    middle, p90 = f"{scaling['median_points']:.1f}", f"{scaling['p90_points']:.1f}"
    return f"""{scaling["pairs"]} pairs of one run at two sizes: efficiency predicted without their source is off by
{middle} percentage points in the median, {p90} at the 90th percentile."""


PARTS = {
    "all": "all peaks",
    "recipe": "recipe",
    "method": "method",
    "recomputation": "recomputation",
    "figure": "figure printed",
    "source": "source",
}


def peak_rows(peaks: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Peaks as rows of a table."""
    shares = ("median", "p90", "too_low", "too_low_with_reserve", "inside")
    return [
        [
            PARTS[p["part"]] if p["part"] == "all" else f"{PARTS[p['part']]}: {p['value']}",
            str(p["rows"]),
            str(p["sources"]),
            f"{p['bias']:.2f}",
            *(f"{p[name]:.0%}" for name in shares),
            f"{p['width']:.2f}",
        ]
        for p in peaks
    ]


def memory(notes: Mapping[str, Any]) -> str:
    """Peaks of memory by part, and how many runs that happened are answered not to fit."""
    runs = notes["runs"]
    lost = ", ".join(f"{source} {count} of {asked}" for source, (count, asked) in runs["by_source"].items())
    head = ("peaks", "rows", "sources", "bias", "median", "p90", "too low", "with reserve", "inside", "high / low")
    return f"""Peaks are compared as their source counts them: what tensors fill, what the allocator took, or what the
device shows. "Too low" is predicted by more than a tenth less than was measured, "with reserve" the same with what a
recommended plan keeps free. Peaks of recipes or lengths that nobody published are compared and not fitted; their
intervals are wide.

{table(head, peak_rows(notes["peaks"]))}

{runs["asked"]} published runs were asked as /estimate is, with their own layouts: {runs["misfits"]} of them
({runs["misfits"] / max(1, runs["asked"]):.1%}) are answered not to fit ({lost})."""


def layouts(found: Sequence[Mapping[str, Any]]) -> str:
    """How far results of layouts are off that nothing is fitted to."""
    rows = [
        [
            c["layout"],
            c["quantity"],
            c["accelerator"],
            str(c["rows"]),
            f"{c['median']:.0%}",
            f"{c['p90']:.0%}",
            f"{c['bias']:.2f}",
        ]
        for c in found
    ]
    return f"""Results of data-parallel ranks that share experts, and of prefill and decode in pools of their own, are
compared and not fitted. Two pools are predicted in balance, by closed form; throughput that is not published follows
of the time to the first token and of those after it, by Little's law.

{table(("layout", "quantity", "accelerator", "rows", "median", "90th pct", "bias"), rows)}"""


def left_out(notes: Mapping[str, Any]) -> str:
    """What was not compared, or not fitted, and why."""
    set_aside = "; ".join(f"{who} ({why})" for who, why in notes["set_aside"].items())
    return f"""Rows that name too little or are not token streams, by reason: {reasons(notes["left_out"])}.

Rows of training, by reason: {reasons(notes["training_left_out"])}.

Compared and not fitted: {set_aside}.

Start-up logs left out: {reasons(notes["kv_cache_left_out"])}."""


def training(rows: Sequence[Compared], notes: Mapping[str, Any]) -> str:
    """Why training is off by source, how well it scales, and its memory."""
    return f"""## Training: why it is off, by source

Asked of sources left out: {ASKED_MEDIAN:.0%} in the median and {ASKED_P90:.0%} at the 90th percentile. Beyond are:

{table(("source", "results", "median", "90th pct", "bias", "in sample", "why"), off(rows))}

## Training: scale-ups

{scale_ups(notes["scaling"])}

## Training: memory

{memory(notes)}"""


def page(rows: Sequence[Compared]) -> str:
    """docs/accuracy.md."""
    report, notes = report_on(rows, fewest=FEWEST), calibration_notes()
    furthest = [worst_row(c) for c in report.worst[:12]]
    tried = {(t.quantity, t.family): t for t in back_test(rows)}
    return f"""# How far predictions are from published results

Written by `make artefacts` from what the fit computed; `GET /accuracy` and `headroom accuracy` answer the same figures.
Each source is predicted by a fit that never saw it (left five columns of errors); beside it stands the fit to all of
them. Errors are absolute and relative to the measurement; bias is the median of predicted over measured; "in interval"
is the share of unseen results inside their 80 % interval, "high / low" its width in the median, and "kept" the share as
good as what would have been planned for at 80 %.

{by_slices(report)}

## How sure: intervals and promises

{how_sure(report, tried)}

## Where sources disagree

What all other sources say of a source's results (bias of its unseen prediction), beside the fit that saw it. Far from
1 on the left and near 1 on the right, the source contradicts the others, or is the only one of its stack: no
prediction from the others can do better.

{table(("quantity", "source", "stack", "rows", "bias unseen", "bias seen"), disagreements(rows))}

## Layouts of large models

{layouts(notes["layouts"])}

{training(rows, notes)}

## The furthest single figures

{table(("figure", "source", "measured", "unseen prediction"), furthest)}

## Cache sizes of start-up logs

{cache_sizes(notes["kv_cache"])}

![cache sizes](accuracy/kv-cache.svg)

## What was left out

{left_out(notes)}
"""


def write() -> None:
    """The page and its plots."""
    rows = comparisons()
    plots(rows)
    (DOCS / "accuracy.md").write_text(page(rows))
