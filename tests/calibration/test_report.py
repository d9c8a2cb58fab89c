"""The lines that `python -m calibration` prints, and when it fails."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from app.catalog.files import read_data_file
from app.sizing.accuracy import QUANTITIES, headline_figures
from app.sizing.snapshot import Catalog
from calibration.__main__ import back_test_lines, disordered, miscalibrated_intervals, regressions, report_lines
from calibration.back_test import BackTest
from calibration.ordering import ALL


def test_what_rose_by_more_than_a_tenth_or_holds_too_little_is_a_failure(catalog: Catalog) -> None:
    found = headline_figures(catalog.evidence.rows)
    assert regressions(found, found) == []
    for name in ("held_out", "interval_score"):
        barely, worse = ({k: {**v, name: v[name] * times} for k, v in found.items()} for times in (1.09, 1.2))
        assert regressions(found, barely) == []
        assert len(regressions(found, worse)) == len(found)
    assert miscalibrated_intervals(found) == []
    for coverage in (0.69, 0.91):
        (said,) = miscalibrated_intervals({**found, "tpot": {**found["tpot"], "coverage": coverage}})
        assert said == f"tpot: 80 % intervals hold {100 * coverage:.0f} % of results, outside 70 % to 90 %"


def test_more_pairs_in_the_wrong_order_are_a_failure() -> None:
    def order(right: float) -> list[dict[str, object]]:
        return [{"compared": "engine", "metric": metric, "unseen_source": right} for metric in (ALL, "tpot")]

    assert disordered(order(0.8), order(0.79)) == []
    (said,) = disordered(order(0.8), order(0.75))
    assert said == "order by engine: 25.0 % of the pairs are wrong, more than a tenth above the committed 20.0 %"


def test_every_quantity_is_printed_with_its_error_coverage_width_score_and_share_kept() -> None:
    notes = json.loads(read_data_file("accuracy.json"))
    run = SimpleNamespace(ups=[], logs=[SimpleNamespace(relative_error=0.02)])
    printed = list(report_lines(run, notes))  # type: ignore[arg-type]
    assert [line.split()[0] for line in printed[: len(QUANTITIES)]] == list(QUANTITIES)
    for line, figures in zip(printed, notes["headline"].values(), strict=False):
        for name, words in (("held_out", "unseen source"), ("coverage", "interval holds"), ("kept", "kept")):
            said = re.search(rf"{words}\s+([\d.]+)%", line)
            assert said is not None and float(said[1]) == pytest.approx(100 * figures[name], abs=0.51)
        assert f"{figures['width']:.2f}" in line and f"{figures['interval_score']:.2f}" in line
    for shares in notes["order"]:
        if shares["metric"] == ALL:
            (line,) = (line for line in printed if line.startswith(f"order by {shares['compared']} "))
            assert f"{shares['pairs']} pairs" in line and f"{shares['unseen_source']:.1%}" in line


def test_the_back_test_is_printed_a_line_a_family() -> None:
    head, line = back_test_lines([BackTest("tpot", "apple", 40, 1, (0.5, 0.81, 0.9, 1.0))])
    assert head.split() == ["sized", "at", "50%", "80%", "90%", "95%"]
    assert line.split() == ["tpot,", "apple", "50%", "81%", "90%", "100%"]
