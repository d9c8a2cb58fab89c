"""docs/accuracy.md and its plots, from the committed predictions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from app.api.schemas.lists import DEFINITIONS
from app.catalog.queries import calibration_notes, list_compared
from app.sizing.accuracy import (
    COVERAGE_TARGET,
    FAMILY_REASONS,
    MAX_MEDIAN_ERROR,
    MIN_INTERVAL_ROWS,
    MIN_ROWS,
    WIDEST_INTERVALS,
    Report,
    Slice,
    errors_of,
    imprecise_slices,
    link_of,
    reason_of,
    report_on,
)
from app.sizing.evidence import Compared
from app.sizing.question import CONFIDENCE_LEVELS
from app.sizing.words import percent
from artefacts.accuracy_plots import DOCS, NAMES, write_plots
from artefacts.training_sources import ASKED_MEDIAN, ASKED_P90, inaccurate_sources
from calibration.back_test import BackTest, back_test
from calibration.calibrate import seeded_catalog
from calibration.ordering import ALL, MIN_DIFFERENCE, MIN_PAIRS

FEWEST = 20


def load_comparisons() -> list[Compared]:
    with seeded_catalog() as sessions, sessions() as session:
        return list_compared(session)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join([" --- "] + [" ---: "] * (len(head) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def slice_figures(s: Slice) -> list[str]:
    h, i = s.held_out, s.in_sample
    return [
        str(s.rows),
        str(s.sources),
        percent(h.median),
        percent(h.p90),
        f"{h.bias:.2f}",
        percent(s.intervals.coverage),
        f"{s.intervals.width:.2f}",
        percent(s.intervals.kept),
        percent(i.median),
        percent(i.p90),
    ]


HEAD = ("rows", "sources", "median", "90th pct", "bias", "in interval", "high / low", "kept", "in sample", "90th pct")


def source_disagreements(rows: Sequence[Compared]) -> list[list[str]]:
    """Bias of a source's results predicted from the other sources: the error floor of any prediction from them."""
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


def bullet_list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def slice_rows(found: Iterable[Slice]) -> list[list[str]]:
    """Table rows for slices with enough results."""
    return [[f"{NAMES[s.metric]}, {s.value}", *slice_figures(s)] for s in found if s.rows >= MIN_ROWS]


def format_reasons(counts: Mapping[str, int]) -> str:
    return json.dumps(counts)[1:-1].replace('"', "")


def by_slices(report: Report) -> str:
    """Errors overall, by accelerator family with recorded reasons for large errors, and by the other dimensions."""
    families = report.by["accelerator_family"]
    far = [s for s in families if s.rows >= MIN_ROWS and s.held_out.median > MAX_MEDIAN_ERROR]
    others = [s for d in ("engine", "format", "model_size", "load") for s in report.by[d]]
    return f"""{markdown_table(("quantity", *HEAD), [[NAMES[s.metric], *slice_figures(s)] for s in report.overall])}

![predicted over measured](accuracy/predicted-over-measured.svg)

Definitions of the quantities, as load testers use them:

{bullet_list(f"{NAMES[k]}: {text}" for k, text in DEFINITIONS.items())}

## By accelerator family

{markdown_table(("quantity and family", *HEAD), slice_rows(families))}

![by family](accuracy/by-family.svg)

Families with a median error above {percent(MAX_MEDIAN_ERROR)} for an unseen source, and the causes:

{bullet_list(f"{NAMES[s.metric]}, {s.value} ({percent(s.held_out.median)}): {FAMILY_REASONS[s.value]}" for s in far)}

## Concurrency sweeps

Published sweeps and simulations of the same runs: same number of requests, same start, same statistic as the source.
The band is the 80 % interval of an unseen source.

![concurrency sweeps](accuracy/concurrency.svg)

## By engine, format, model size and load

{markdown_table(("quantity and slice", *HEAD), slice_rows(others))}"""


COMPARED = {
    "engine": "engine",
    "hardware": "hardware, same number of accelerators",
    "hardware_per_accelerator": "hardware, tokens/s per accelerator",
    "degree": "number of accelerators",
    "format": "class of weight format",
}


def order_section(order: Iterable[Mapping[str, Any]]) -> str:
    """Shares of pairs in the right order, by what they differ in and by quantity."""
    rows = [
        [
            COMPARED[s["compared"]] + ("" if s["metric"] == ALL else f": {NAMES[s['metric']].lower()}"),
            str(s["pairs"]),
            str(s["sources"]),
            percent(s["unseen_source"]),
            percent(s["in_sample"]),
        ]
        for s in order
    ]
    return f"""How often the faster of two published results is predicted to be the faster one. A pair is two results of
one source that differ by at least {percent(MIN_DIFFERENCE - 1)}, under the same conditions but for the compared
property; two engines have the same layout. Equal predictions count as wrong, and results that no fit uses make no
pairs. Quantities with fewer than {MIN_PAIRS} pairs are only in the sums.

{markdown_table(("compared", "pairs", "sources", "unseen source", "in sample"), rows)}"""


KEPT_HEAD = tuple(f"kept at {percent(level)}" for level in CONFIDENCE_LEVELS)
INTERVAL_HEAD = ("results", "sources", "inside", "high / low", *KEPT_HEAD)


def interval_figures(s: Slice, tried: Mapping[tuple[str, str], BackTest]) -> list[str]:
    """Coverage, width and kept shares of a slice's intervals."""
    kept = tried[s.metric, s.value].kept_shares
    inside, width = percent(s.intervals.coverage), f"{s.intervals.width:.2f}"
    return [str(s.rows), str(s.sources), inside, width, *(percent(share) for share in kept)]


def intervals_section(report: Report, tried: Mapping[tuple[str, str], BackTest]) -> str:
    """Section on intervals and guaranteed values, and their quality for unseen sources."""
    promised = [s for s in report.overall if (s.metric, s.value) in tried]
    families = [
        s for s in report.by["accelerator_family"] if s.rows >= MIN_INTERVAL_ROWS and (s.metric, s.value) in tried
    ]
    family_rows = [[f"{NAMES[s.metric]}, {s.value}", *interval_figures(s, tried)] for s in families]
    widest = ", ".join(f"{NAMES[kind].lower()} {width:g}" for kind, width in WIDEST_INTERVALS.items())
    low, high = COVERAGE_TARGET
    return f"""An interval is the range that should contain 80 % of the results of an unseen source. It is narrow close
to published results. It is wider with the distance to the nearest result, with few sources, and without kernel tables
of the manufacturer. The intervals on this page come from a fit and from spreads that never saw the result's source.
"Kept at 80 %" is a back-test: hardware is sized for each result without its source at that confidence. The share counts
results that the sized hardware would have delivered, which are those no worse than the factor of the spread.

Targets: {percent(low)} to {percent(high)} inside, the same share kept at 80 %, and high over low of at most: {widest}.

{markdown_table(("quantity", *INTERVAL_HEAD), [[NAMES[s.metric], *interval_figures(s, tried)] for s in promised])}

By family, with at least {MIN_INTERVAL_ROWS} results:

{markdown_table(("quantity and family", *INTERVAL_HEAD), family_rows)}

![share inside over width](accuracy/intervals.svg)

Families that miss the targets, and the causes:

{bullet_list(f"{'; '.join(who)}: {why}" for why, who in short_of(report).items())}"""


def short_of(report: Report) -> dict[str | None, list[str]]:
    """Families whose intervals miss the target, by reason."""
    found: dict[str | None, list[str]] = defaultdict(list)
    for s in imprecise_slices(report):
        found[reason_of(s)].append(f"{NAMES[s.metric]}, {s.value}")
    return found


def cache_sizes(logs: Sequence[Mapping[str, Any]]) -> str:
    """Errors of start-up logs, and the logs with the largest errors."""
    ratios = [log["predicted_bytes"] / log["measured_bytes"] for log in logs]
    off = np.abs([ratio - 1 for ratio in ratios])
    middle, p90 = percent(float(np.median(off)), 1), percent(float(np.quantile(off, 0.9)), 1)
    furthest = sorted(zip(ratios, logs, strict=True), key=lambda found: -abs(found[0] - 1))[:8]
    rows = [
        [log["reference"].split("@")[0][-60:].replace("|", " "), log["model"], f"{ratio:.2f}"]
        for ratio, log in furthest
    ]
    return f"""{len(off)} logs: median error {middle}, 90th percentile {p90}. The largest errors:

{markdown_table(("log", "model", "predicted over logged"), rows)}"""


def scale_ups(scaling: Mapping[str, float]) -> str:
    """Error of scaling efficiency for training runs at several sizes."""
    middle, p90 = f"{scaling['median_points']:.1f}", f"{scaling['p90_points']:.1f}"
    return f"""{scaling["pairs"]} pairs of one run at two sizes. The error of the efficiency predicted without the
source is {middle} percentage points in the median and {p90} at the 90th percentile."""


PARTS = {
    "all": "all peaks",
    "recipe": "recipe",
    "method": "method",
    "recomputation": "recomputation",
    "figure": "figure printed",
    "source": "source",
}


def peak_rows(peaks: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    shares = ("median", "p90", "too_low", "too_low_with_reserve", "inside")
    return [
        [
            PARTS[p["part"]] if p["part"] == "all" else f"{PARTS[p['part']]}: {p['value']}",
            str(p["rows"]),
            str(p["sources"]),
            f"{p['bias']:.2f}",
            *(percent(p[name]) for name in shares),
            f"{p['width']:.2f}",
        ]
        for p in peaks
    ]


def memory_section(notes: Mapping[str, Any]) -> str:
    """Errors of memory peaks by part, and the number of real runs that are reported as not fitting."""
    runs = notes["runs"]
    lost = ", ".join(f"{source} {count} of {asked}" for source, (count, asked) in runs["by_source"].items())
    head = ("peaks", "rows", "sources", "bias", "median", "p90", "too low", "with reserve", "inside", "high / low")
    return f"""Peaks are compared as their source counts them: memory of tensors, memory reserved by the allocator, or
memory in use on the device. "Too low" is the share predicted more than 10 % below the measurement. "With reserve" is
the same share after adding the reserve that a recommended plan keeps free. Peaks with unpublished recipes or lengths
are compared but not fitted; their intervals are wide.

{markdown_table(head, peak_rows(notes["peaks"]))}

/estimate was asked for {runs["asked"]} published runs with their own layouts. It reports {runs["misfits"]} of them
({percent(runs["misfits"] / max(1, runs["asked"]), 1)}) as not fitting ({lost})."""


def layouts_section(found: Sequence[Mapping[str, Any]]) -> str:
    """Errors of layouts that no factor is fitted to."""
    rows = [
        [
            c["layout"],
            c["quantity"],
            c["accelerator"],
            str(c["rows"]),
            percent(c["median"]),
            percent(c["p90"]),
            f"{c['bias']:.2f}",
        ]
        for c in found
    ]
    return f"""Results of data-parallel ranks that share experts, and of separate prefill and decode pools, are compared
but not fitted. Two pools are predicted in balance, in closed form. Throughput that is not published follows from TTFT
and TPOT by Little's law.

{markdown_table(("layout", "quantity", "accelerator", "rows", "median", "90th pct", "bias"), rows)}"""


def left_out(notes: Mapping[str, Any]) -> str:
    """Results that were not compared or not fitted, with reasons."""
    excluded = "; ".join(f"{who} ({why})" for who, why in notes["excluded"].items())
    return f"""Rows without enough data or without a token stream, by reason: {format_reasons(notes["left_out"])}.

Training rows, by reason: {format_reasons(notes["training_left_out"])}.

Compared but not fitted: {excluded}.

Start-up logs that are left out: {format_reasons(notes["kv_cache_left_out"])}."""


def training_section(rows: Sequence[Compared], notes: Mapping[str, Any]) -> str:
    """Training errors by source, scaling, and memory."""
    return f"""## Training: errors and causes by source

Target for unseen sources: {percent(ASKED_MEDIAN)} in the median and {percent(ASKED_P90)} at the 90th percentile.
Sources that miss it:

{markdown_table(("source", "results", "median", "90th pct", "bias", "in sample", "cause"), inaccurate_sources(rows))}

## Training: scale-ups

{scale_ups(notes["scaling"])}

## Training: memory

{memory_section(notes)}"""


def page(rows: Sequence[Compared]) -> str:
    """docs/accuracy.md as text."""
    report, notes = report_on(rows, fewest=FEWEST), calibration_notes()
    furthest = [worst_row(c) for c in report.worst[:12]]
    tried = {(t.quantity, t.family): t for t in back_test(rows)}
    return f"""# How far predictions are from published results

`make artefacts` writes this page from the results of the fit. `GET /accuracy` and `headroom accuracy` return the same
figures. Each source is predicted by a fit that never saw it; the "in sample" columns are from the fit to all sources.
Errors are absolute errors relative to the measurement. "Bias" is the median of predicted over measured. "In interval"
is the share of unseen results inside their 80 % interval, and "high / low" is its median width. "Kept" is
the share of results at least as good as the value guaranteed at 80 % confidence.

{by_slices(report)}

## Order of two results

{order_section(notes["order"])}

## Intervals and guaranteed values

{intervals_section(report, tried)}

## Where sources disagree

Bias of a source's results as predicted from all other sources, and by the fit that includes the source. If "bias
unseen" is far from 1 and "bias seen" is close to 1, the source contradicts the others or is the only one of its stack.
No prediction from the other sources can be better.

{markdown_table(("quantity", "source", "stack", "rows", "bias unseen", "bias seen"), source_disagreements(rows))}

## Layouts of large models

{layouts_section(notes["layouts"])}

{training_section(rows, notes)}

## Largest single errors

{markdown_table(("figure", "source", "measured", "unseen prediction"), furthest)}

## Cache sizes of start-up logs

{cache_sizes(notes["kv_cache"])}

![cache sizes](accuracy/kv-cache.svg)

## Results that are left out

{left_out(notes)}
"""


def write() -> None:
    """Writes the page and its plots."""
    rows = load_comparisons()
    write_plots(rows)
    (DOCS / "accuracy.md").write_text(page(rows))
