"""What a buyer does with an answer: takes it along, reads its plots, works by the keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.test_page import preset

if TYPE_CHECKING:
    from tests.page.browser import Browser

pytestmark = pytest.mark.page


def test_exports_of_the_page_are_those_of_the_api(browser: Browser) -> None:
    browser.open()
    preset(browser, "LoRA")
    answer = browser.answered()
    browser.run("[...document.querySelectorAll('.card.first summary')].find((s) => s.textContent === 'Export').click()")
    browser.until("document.querySelector('.card.first a.button')")
    links = browser.run(
        "return [...document.querySelectorAll('.card.first a.button')].map((a) => a.getAttribute('href'))"
    )
    # The complete answer to the same request: its memo has the sensitivity.
    at = f"{links[0].partition('/bill')[0]}/bill-of-materials?rank=1&format="
    whole = browser.run("return fetch(arguments[0]).then((r) => r.json())", at.partition("/bill")[0])
    assert whole["recommendations"][0]["cost"] == answer["recommendations"][0]["cost"] and whole["sensitivity"]
    assert links == [at + kind for kind in ("html", "xlsx", "csv", "ubl", "cxml", "json")]
    kinds = browser.run(
        "const kind = (r) => `${r.status} ${r.headers.get('content-type')}`;"
        "return Promise.all(arguments[0].map((a) => fetch(a).then(kind)))",
        links,
    )
    assert all(kind.startswith("200 ") for kind in kinds) and len(set(kinds)) >= 5, kinds
    slurm = "[...document.querySelectorAll('.card.first button')].find((b) => b.textContent === 'Slurm')"
    browser.until(slurm)
    browser.run(f"{slurm}.click()")
    shown = browser.until("document.querySelector('.card.first pre')?.textContent")
    served = browser.run(
        "return fetch(document.querySelector('.card.first pre').previousElementSibling.href).then((r) => r.text())"
    )
    assert shown == served


def test_a_keyboard_is_enough(browser: Browser) -> None:
    browser.open()
    browser.until("document.querySelectorAll('.preset').length > 0")
    browser.press("TAB")
    assert browser.run("return document.activeElement.className") == "skip"
    browser.run("document.getElementById('workload.model').focus()")
    browser.press("CONTROL", "a")
    browser.press("70b", "ENTER")
    assert browser.answered()["request"]["workload"]["model"] == {"parameters_billion": 70}
    browser.run("delete document.getElementById('answer').dataset.id; document.querySelector('[type=range]').focus()")
    browser.press("ARROW_RIGHT", "ARROW_RIGHT")
    assert browser.answered()["request"]["workload"]["traffic"]["users"]["count"] == round(1000 * 10**0.04)
    assert browser.run("return document.activeElement.type") == "range"
    browser.run("document.querySelector('.card.first summary').focus()")
    browser.press("ENTER")
    browser.until("document.querySelector('.card.first details').open")
    browser.run("document.querySelector('[name=compared]').focus()")
    browser.press("SPACE", "ARROW_DOWN", "SPACE")
    reached: list[str] = []
    while "Compare selected" not in reached and len(reached) < 6:
        browser.press("TAB")
        reached.append(browser.run("return document.activeElement.textContent"))
    browser.press("ENTER")
    browser.until("[...document.querySelectorAll('caption')].some((c) => c.textContent === 'Side by side')")


def test_plots_are_drawn_of_the_numbers_of_the_api(browser: Browser) -> None:
    browser.open()
    preset(browser, "Chat")
    first = browser.answered()["recommendations"]
    named = browser.run(
        "return Object.fromEntries([...document.querySelectorAll('figure')].map((f) =>"
        "[f.querySelector('figcaption').textContent,"
        " [...f.querySelectorAll('tbody tr')].map((r) => [...r.children].map((c) => c.textContent))]))"
    )
    curve = first[0]["performance"]["load_curve"]["points"]
    waits = named["Time per token by load"]
    plotted = [[float(cell.replace(",", "")) for cell in row] for row in waits]
    for row, point in zip(plotted, curve, strict=True):
        tpot = point["tpot_ms"]
        assert row == pytest.approx([point["requests_per_s"], tpot["p50"], tpot["p95"]], rel=5e-3)
    [row] = named["Memory of one accelerator"]
    memory = first[0]["memory"]["per_accelerator_gib"]
    assert [float(row[1]), float(row[-1])] == pytest.approx([memory["weights"], memory["capacity"]], rel=5e-3)
    # A circle stands where its number is.
    dots = browser.run(
        "const f = [...document.querySelectorAll('figure')].find((f) => f.textContent.startsWith('Time per token'));"
        "return [...f.querySelectorAll('circle.fill-0')].map((c) => [+c.getAttribute('cx'), +c.getAttribute('cy')])"
    )
    per_request = (dots[-1][0] - dots[0][0]) / (curve[-1]["requests_per_s"] - curve[0]["requests_per_s"])
    per_ms = (dots[-1][1] - dots[0][1]) / (curve[-1]["tpot_ms"]["p95"] - curve[0]["tpot_ms"]["p95"])
    assert per_request > 0 > per_ms
    for (x, y), point in zip(dots, curve, strict=True):
        right = per_request * (point["requests_per_s"] - curve[0]["requests_per_s"])
        down = per_ms * (point["tpot_ms"]["p95"] - curve[0]["tpot_ms"]["p95"])
        assert (x - dots[0][0], y - dots[0][1]) == pytest.approx((right, down), abs=0.5)
