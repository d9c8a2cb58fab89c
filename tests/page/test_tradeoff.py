"""All feasible options as a plot and a table: selected by pointer and keyboard, sorted, drawn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from tests.page.browser import Browser

pytestmark = pytest.mark.page

ROWS = "return [...document.querySelectorAll('.tall tbody tr')].map((r) => [...r.children].map((c) => c.textContent))"
SELECTED = "return document.querySelector('.card.selected h3').lastChild.textContent.trim()"
FIGURES = (
    "return Object.fromEntries([...document.querySelectorAll('.of-first figure')].map((f) =>"
    "[f.querySelector('figcaption').textContent,"
    " [...f.querySelectorAll('tbody tr')].map((r) => [...r.children].map((c) => c.textContent))]))"
)


def test_every_feasible_type_is_in_the_plot_and_in_the_table(browser: Browser) -> None:
    browser.open()
    answer = browser.answered()
    types = answer["considered"]["feasible_accelerators"]
    rows = browser.run(ROWS)
    assert len(rows) == types == len(answer["recommendations"])
    assert browser.run("return document.querySelectorAll('[role=radio]').length") == types
    first = answer["recommendations"][0]
    assert f"${first['cost']['usd_per_hour']:.2f}" in rows[0]
    assert f"{100 * first['confidence']['meets_slo']:.0f} %" in rows[0]


def test_the_table_sorts_and_its_columns_are_chosen(browser: Browser) -> None:
    browser.open()
    browser.answered()
    heads = "[...document.querySelectorAll('.tall thead th')]"
    browser.run(f"{heads}.find((h) => h.textContent.startsWith('TPOT')).firstChild.click()")
    column = browser.run(f"return {heads}.findIndex((h) => h.textContent.startsWith('TPOT'))")
    values = [float(row[column].replace(",", "")) for row in browser.run(ROWS)]
    assert values == sorted(values)
    assert browser.run(f"return {heads}[{column}].getAttribute('aria-sort')") == "ascending"
    # The focus stays on the heading, so a second key press turns the order around.
    browser.press("ENTER")
    values = [float(row[column].replace(",", "")) for row in browser.run(ROWS)]
    assert values == sorted(values, reverse=True)
    browser.run(
        "const c = [...document.querySelectorAll('.explored details label')].find((l) => l.textContent === 'Software');"
        "c.querySelector('input').click()"
    )
    assert "Software" in browser.run(f"return {heads}.map((h) => h.textContent)")


def test_an_option_is_selected_in_the_plot_by_keyboard_and_drawn(browser: Browser) -> None:
    browser.open()
    browser.answered()
    before = browser.run(SELECTED)
    browser.run("document.querySelector('[role=radio][tabindex=\"0\"]').focus()")
    browser.press("ARROW_LEFT")
    after = browser.run(SELECTED)
    focused = browser.run("const a = document.activeElement; return [a.getAttribute('aria-checked'), a.ariaLabel]")
    assert after != before and focused[0] == "true"
    assert focused[1].startswith(after)
    assert browser.text(".detail") == focused[1]
    pressed = browser.run("return document.querySelector('.pick[aria-pressed=true]').textContent")
    assert pressed.endswith(after)
    # The last option has its figures and exports, too.
    browser.run("[...document.querySelectorAll('.pick')].at(-1).click()")
    last = browser.run(SELECTED)
    assert last in browser.text(".card h3")
    browser.run("[...document.querySelectorAll('.card summary')].find((s) => s.textContent === 'Export').click()")
    link = browser.until("document.querySelector('.card a.button')?.getAttribute('href')")
    assert browser.run("return fetch(arguments[0]).then((r) => r.status)", link) == 200


def test_the_selected_option_has_its_layout_bill_and_day(browser: Browser) -> None:
    request = {
        "workload": {
            "phase": "inference",
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "traffic": {
                "peak_requests_per_s": 20,
                "input_tokens": 800,
                "output_tokens": 300,
                "hourly_factors": [0.1] * 8 + [1] * 8 + [0.5] * 8,
            },
            "availability": {"redundancy": "n+1"},
        }
    }
    browser.open(f"/#q={quote(json.dumps(request))}")
    first = browser.answered()["recommendations"][0]
    figures = browser.run(FIGURES)
    layout = first["deployment"]
    squares = browser.run(
        "const all = (s) => document.querySelectorAll(`.layout-drawing ${s}`).length;"
        "return [all('.machine'), all('g rect'), all('.spare')]"
    )
    assert squares == [
        layout["nodes"],
        layout["total_accelerators"],
        layout["spare_replicas"] * layout["accelerators_per_replica"],
    ]
    bill = first["confidence"]["bill"]
    title = next(name for name in figures if name.startswith("Why "))
    assert [float(row[2]) for row in figures[title]] == pytest.approx([b["total_accelerators"] for b in bill], rel=5e-3)
    levels = first["confidence"]["by_level"]
    assert [row[0] for row in figures["Cost by confidence"]] == [f"{100 * each['confidence']:.0f} %" for each in levels]
    assert [row[2] for row in figures["Cost by confidence"]] == [f"${each['usd_per_hour']:.2f}" for each in levels]
    assert [int(row[2]) for row in figures["The day"]] == [h["replicas"] for h in first["day"]["hours"]]
    shown = browser.text(".tiles").split("Per day$")[1].split("First token")[0]
    assert float(shown.replace(",", "")) == pytest.approx(first["cost"]["usd_per_day"], abs=0.006)  # halves


def test_the_range_of_each_value_is_drawn_when_opened(browser: Browser) -> None:
    browser.open()
    answer = browser.answered()
    browser.run(
        "const real = window.fetch; window.fetch = () => { window.fetch = real; return Promise.reject(new Error()); };"
        "window.section = [...document.querySelectorAll('.later')].find((d) => /^Sensit/.test(d.textContent));"
        "window.section.open = true"
    )
    # The first try fails, and the section offers another.
    browser.until("window.section.querySelector('.error')?.nextElementSibling").click()
    browser.complaints()  # the page reports the failure
    rows = browser.until(
        "window.section.querySelector('figure') && "
        "[...window.section.querySelectorAll('figure tbody tr')].map((r) => r.children[0].textContent)"
    )
    flips: list[dict[str, Any]] = []
    holds: list[dict[str, Any]] = []
    start: int | None = 0
    while start is not None:
        path = f"/recommendations/{answer['id']}/sensitivity?start={start}"
        found = browser.run("return fetch(arguments[0]).then((r) => r.json())", path)
        flips, holds, start = flips + found["flips"], holds + found["holds"], found.get("next")
    numbers = {each["knob"] for each in flips if each.get("value")} | {each["knob"] for each in holds}
    assert {row.lower().replace(",", "") for row in rows} == {name.replace("_", " ") for name in numbers}
    # A change without a number, such as another weight format, is stated as text.
    others = [each["text"] for each in flips if not each.get("value")]
    assert browser.run("return [...window.section.querySelectorAll('figure li')].map((l) => l.textContent)") == others
