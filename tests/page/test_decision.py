"""The first screen: the decision and its alternative, progress, changed figures, size and stability of the page."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.page.test_page import preset

if TYPE_CHECKING:
    from tests.page.browser import Browser

pytestmark = pytest.mark.page

MAX_TRANSFERRED = 200_000  # bytes of the page itself
# Bottom edges of the decision, of its figures and of the hosted API, in the window.
BOTTOMS = (
    "return ['#top', '.tiles', '.hosted'].map((s) => document.querySelector(s).getBoundingClientRect().bottom"
    " + window.scrollY)"
)
SHIFTS = (
    "new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) "
    "window.shifted = (window.shifted ?? 0) + e.value; }).observe({ type: 'layout-shift', buffered: true });"
)
# Milliseconds from a click until the progress is drawn, while the service does not answer at all.
PROGRESS_MS = (
    "const done = arguments[0]; window.fetch = () => new Promise(() => {}); const begun = performance.now();"
    "document.querySelector('.go').click();"
    "requestAnimationFrame(() => requestAnimationFrame(() => done({ ms: performance.now() - begun,"
    " bar: getComputedStyle(document.getElementById('progress'), '::after').content,"
    " top: document.getElementById('progress').getBoundingClientRect().top,"
    " button: document.querySelector('.go').textContent })))"
)


@pytest.mark.parametrize(("width", "fold"), [(1280, 900), (390, 844)])
def test_the_page_opens_with_a_decision_above_the_fold(browser: Browser, width: int, fold: int) -> None:
    """The example of the form is answered without a click; the address and the recent requests stay empty."""
    browser.open(width=width)
    browser.run(SHIFTS)
    answer = browser.answered()
    assert max(browser.run(BOTTOMS)) < fold
    first = answer["recommendations"][0]
    assert f"{first['deployment']['total_accelerators']} × " in browser.text("#top h2")
    assert f"${first['cost']['usd_per_hour']:.2f}/h" in browser.text("#top .headline")
    assert f"{100 * first['confidence']['meets_slo']:.0f} %" in browser.text("#top .headline")
    cheapest = answer["hosted_api"]["hosts"][0]
    assert f"${cheapest['usd_per_month']:,.0f} per month" in browser.text(".hosted")
    assert browser.run("return location.hash") == ""
    # On a phone, the request is folded, so the answer follows the headings; it has three screens.
    assert browser.run("return document.getElementById('question').open") == (width == 1280)
    assert width == 1280 or browser.run("return document.documentElement.scrollHeight") < 3 * fold
    browser.window.execute_async_script("setTimeout(arguments[0], 300)")
    assert browser.run("return window.shifted ?? 0") < 0.1
    size = browser.run(
        "return performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
        ".filter((e) => !e.name.includes('/recommend')).reduce((sum, e) => sum + e.encodedBodySize, 0)"
    )
    assert 10_000 < size < MAX_TRANSFERRED


def test_progress_is_visible_at_once(browser: Browser) -> None:
    browser.open()
    browser.answered()
    seen = browser.window.execute_async_script(PROGRESS_MS)
    assert seen["bar"] == '""' and seen["button"] == "Sizing…" and 0 < seen["top"] < 300
    assert seen["ms"] < 100, seen


def test_a_changed_figure_is_marked_and_its_old_value_stays(browser: Browser) -> None:
    browser.open()
    preset(browser, "Chat")
    old = browser.answered()["recommendations"][0]["cost"]["usd_per_month"]
    assert browser.run("return document.querySelectorAll('.changed').length") == 0
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.type("workload.traffic.users.count", "5,000")
    new = browser.answered()["recommendations"][0]["cost"]["usd_per_month"]
    assert new > old
    new, old = (math.floor(each + 0.5) for each in (new, old))  # the page rounds halves up
    month = browser.run("return [...document.querySelectorAll('.tile.changed')].map((t) => t.textContent)")
    assert f"Per month${new:,}was ${old:,}" in month
    assert browser.run("return document.querySelector('#top .headline .changed') !== null")


def test_a_fault_in_a_folded_request_opens_it(browser: Browser) -> None:
    browser.open(width=390)
    browser.answered()
    assert browser.run("return document.getElementById('options').open") is False
    browser.type("workload.slo.percentile", "120")
    browser.until("document.activeElement.id === 'workload.slo.percentile'")
    assert browser.run("return document.getElementById('options').open") is True
    browser.complaints()  # the browser reports the 422


def test_recorded_requests_are_read_from_a_file_and_a_faulty_line_is_named(browser: Browser, tmp_path: Path) -> None:
    browser.open()
    browser.answered()
    browser.type("load", "trace")  # nothing is entered yet: no error
    browser.until("document.getElementById('status').textContent.startsWith('Recorded requests: enter a value.')")
    assert browser.run("return document.querySelectorAll('.fault, [aria-invalid]').length") == 0
    start = datetime(2026, 11, 20, 10)  # 1,200 s with one request a second, then a minute with ten a second
    arrivals = [start + timedelta(seconds=s if s < 1200 else 1200 + 0.1 * (s - 1200)) for s in range(1800)]
    recorded = tmp_path / "trace.csv"
    recorded.write_text(
        "\n".join(["time,output_tokens,prompt_tokens", *(f"{at},30{i % 10},800" for i, at in enumerate(arrivals))])
    )
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.window.find_element("id", "workload.traffic.trace-file").send_keys(str(recorded))
    trace = browser.answered()["request"]["workload"]["traffic"]["trace"]
    assert len(trace) == 800 and trace[0] == {"at_s": 0, "input_tokens": 800, "output_tokens": 300}
    assert trace[-1]["at_s"] == pytest.approx(200 + 59.9)
    browser.type("workload.traffic.trace", "at_s, input_tokens, output_tokens\n0, 800, 300\nx1, 1200, 210")
    assert "“x1” is not a number" in browser.until("document.querySelector('.fault')?.textContent")


def test_a_request_that_nothing_meets_says_what_is_closest_and_what_would_change_it(browser: Browser) -> None:
    browser.open()
    browser.answered()
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.type("constraints.max_usd_per_hour", "0.01")
    assert browser.answered()["recommendations"] == []
    assert "Closest option: " in browser.text("#top")
    assert "feasible at" in browser.until("document.querySelector('#answer .later li')?.textContent")
    browser.type("workload.model", "lama 3 seventy")
    name = browser.until("document.querySelector('#problem button')?.textContent")
    browser.run(
        "delete document.getElementById('answer').dataset.id; document.querySelector('#problem button').click()"
    )
    assert browser.answered()["request"]["workload"]["model"] == name
    browser.complaints()  # the browser reports the 404


FIRST_LOAD = """
const done = arguments[0];
let shifts = 0;
new PerformanceObserver((l) => l.getEntries().forEach((e) => { shifts += e.value; }))
  .observe({ type: 'layout-shift', buffered: true });
const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
const asked = loaded.filter((e) => e.name.endsWith('/recommend'));
const bytes = loaded.reduce((sum, e) => sum + e.transferSize, 0);
setTimeout(() => done([bytes, shifts, asked.length, asked[0].responseEnd]), 200);
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_answer_comes_early_and_moves_nothing(browser: Browser, width: int) -> None:
    browser.window.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    browser.open(width=width)
    browser.answered()
    browser.window.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": False})
    sent_bytes, shift, asked, answered_ms = browser.window.execute_async_script(FIRST_LOAD)
    assert 50_000 < sent_bytes < 200_000
    assert shift == 0
    assert asked == 1
    assert answered_ms < 3_000  # 1 s on an idle machine
