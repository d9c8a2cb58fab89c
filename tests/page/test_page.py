"""The page in a real browser: what it asks, what it shows, and that everybody can use it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.test_page import PRESETS

if TYPE_CHECKING:
    from tests.page.browser import Browser

pytestmark = pytest.mark.page
# What the page itself takes, from the question to the answer drawn.
BESIDE_THE_ANSWER_MS = (
    "const asked = performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/recommend')).at(-1);"
    "return Number(document.getElementById('answer').dataset.ms) - asked.duration"
)


def preset(browser: Browser, name: str) -> None:
    """A preset's button, as soon as the page has it, and its answer."""
    browser.until("document.querySelectorAll('.preset').length > 0")
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.run("[...document.querySelectorAll('.preset')].find((b) => b.textContent === arguments[0]).click()", name)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_answered_with_the_numbers_of_the_api(browser: Browser, name: str) -> None:
    browser.open()
    preset(browser, name)
    answer = browser.answered()
    asked = json.loads(json.dumps(answer["request"]))
    assert asked["workload"]["model"] == PRESETS[name]["workload"]["model"]
    assert browser.text(".summary") == answer["summary"]
    first = answer["recommendations"][0]
    card, cost = browser.text(".card.first"), first["cost"]
    money = cost["usd_total"] or cost["usd_per_hour"]
    assert (f"${money:,.0f}" if money >= 100 else f"${money:.2f}" if money >= 0.1 else f"${money:.2g}") in card
    assert all(f"{w['text']}" in browser.text("#answer") for w in answer["warnings"])
    assert browser.run("return document.querySelectorAll('.card').length") == len(answer["recommendations"])
    assert browser.run("return document.querySelectorAll('figure svg').length") >= 1
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out_and_nothing_is_wider_than_the_window(browser: Browser, width: int, scheme: str) -> None:
    browser.open(width=width, scheme=scheme)
    preset(browser, "RAG")
    browser.answered()
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.until("document.querySelectorAll('#accuracy table').length")
    assert browser.axe() == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_the_documentation_is_dark_where_it_is_dark(browser: Browser) -> None:
    browser.open("/docs", scheme="dark")
    browser.until("document.querySelector('.swagger-ui .info')")
    assert browser.run("return document.documentElement.classList.contains('dark-mode')")


def test_a_link_restores_the_question_and_the_answer(browser: Browser) -> None:
    request = {
        "workload": {
            "phase": "inference",
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "traffic": {"peak_requests_per_s": 4, "input_tokens": {"mean": 900, "p95": 2000}, "output_tokens": 210},
            "adapters": {"count": 3, "rank": 16},
        },
        "constraints": {"vendors": ["nvidia"], "confidence": 0.9},
        "objective": "cost",
        "limit": 3,
    }
    browser.open(f"/#q={quote(json.dumps(request))}")
    first = browser.answered()
    assert first["request"] == request
    link = browser.run("return document.getElementById('permalink').href")
    browser.open("/" + link.partition("/#")[2].join(("#", "")))
    assert browser.answered()["id"] == first["id"]
    browser.open(f"/#a={first['id']}")
    assert browser.answered()["id"] == first["id"]
    # An answer's own link shows it without asking anew, and the way back leads to the question before.
    preset(browser, "Edge")
    assert browser.answered()["request"]["workload"] == PRESETS["Edge"]["workload"]
    browser.run("delete document.getElementById('answer').dataset.id; history.back()")
    assert browser.answered()["id"] == first["id"]
    browser.open()
    assert "Llama-3.1-8B" in browser.text("#past")


def test_numbers_are_read_as_people_type_them(browser: Browser) -> None:
    browser.open()
    preset(browser, "Pretraining")
    browser.answered()
    for typed, tokens in {"1,000,000,000": 1e9, "1 trillion": 1e12, "300b": 3e11, "2.5e9": 2.5e9}.items():
        browser.run("delete document.getElementById('answer').dataset.id")
        browser.type("workload.training_tokens", typed)
        assert browser.answered()["request"]["workload"]["training_tokens"] == tokens
    browser.type("workload.training_tokens", "many")
    assert browser.until("document.getElementById('problem').textContent").endswith("1e9 are.")
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.type("workload.training_tokens", "1e11")
    browser.answered()
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.type("workload.model", "70b")
    assert browser.answered()["request"]["workload"]["model"] == {"parameters_billion": 70}


def test_a_knob_moves_the_answer_at_once(browser: Browser) -> None:
    browser.open()
    preset(browser, "RAG")
    before = browser.answered()["recommendations"][0]
    turn = (
        "const k = document.querySelector('[data-path=\"workload.traffic.peak_requests_per_s\"][type=range]');"
        "k.value = arguments[0]; k.dispatchEvent(new Event('input', { bubbles: true }));"
        "delete document.getElementById('answer').dataset.id"
    )
    waits = []
    for place in (0.3, 0.34, 0.38, 0.42, 0.46):
        browser.run(turn, place)
        answer = browser.answered()
        waits.append(browser.run(BESIDE_THE_ANSWER_MS))
    peak = answer["request"]["workload"]["traffic"]["peak_requests_per_s"]
    assert peak == float(f"{3 * 10**0.46:.3g}")
    assert answer["recommendations"][0]["cost"]["usd_per_hour"] > before["cost"]["usd_per_hour"]
    # Of the 200 ms that a what-if may take the service has most.
    assert sorted(waits)[2] < 100, waits


def test_a_slow_earlier_answer_never_overwrites_a_later_one(browser: Browser) -> None:
    browser.open()
    preset(browser, "Embeddings")
    browser.answered()
    browser.run(
        "const real = window.fetch; let n = 0;"
        "window.fetch = async (path, options) => {"
        "  const slow = path === '/recommend' && n++ === 0;"
        "  const { signal, ...deaf } = options ?? {};"
        "  if (slow) await new Promise((done) => setTimeout(done, 900));"
        "  return real(path, deaf); };"
        "delete document.getElementById('answer').dataset.id"
    )
    browser.type("workload.traffic.peak_requests_per_s", "300")
    browser.run("document.querySelector('.go').click()")
    browser.type("workload.traffic.peak_requests_per_s", "400")
    assert browser.answered()["request"]["workload"]["traffic"]["peak_requests_per_s"] == 400
    browser.window.execute_async_script("setTimeout(arguments[0], 1500)")
    assert browser.answered()["request"]["workload"]["traffic"]["peak_requests_per_s"] == 400


def test_options_are_compared_and_assumptions_changed_in_place(browser: Browser) -> None:
    browser.open()
    preset(browser, "Embeddings")
    browser.answered()
    browser.run("for (const b of [...document.querySelectorAll('[name=compared]')].slice(0, 2)) b.click()")
    browser.run("[...document.querySelectorAll('button')].find((b) => b.textContent.startsWith('Compare')).click()")
    browser.until("[...document.querySelectorAll('caption')].some((c) => c.textContent === 'Side by side')")
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.run(
        "const i = document.querySelector('input[aria-label=\"target utilization\"]');"
        "i.value = '0.5'; i.dispatchEvent(new Event('change', { bubbles: true }))"
    )
    assert browser.answered()["request"]["assumptions"] == {"target_utilization": 0.5}


def test_what_is_refused_is_told_at_its_field(browser: Browser) -> None:
    browser.open()
    preset(browser, "Chat")
    browser.answered()
    browser.type("workload.slo.percentile", "120")
    browser.until("document.getElementById('problem').textContent.includes('percentile')")
    assert browser.run("return document.activeElement.id") == "workload.slo.percentile"
    browser.complaints()  # the browser tells of the 422 itself


def test_everything_was_asked_of_the_service_alone(browser: Browser) -> None:
    asked = [url for url in browser.requests() if not url.startswith(("data:", "about:"))]
    assert asked
    assert [url for url in asked if not url.startswith(browser.service)] == []
