"""The page in a real browser: what it asks, what it shows, and that everybody can use it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.test_page import PRESETS

if TYPE_CHECKING:
    from tests.page.browser import Browser

pytestmark = pytest.mark.page


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
    names = [part.partition("× ")[2] for part in browser.text(".card.first h3").split(" + ")]
    for warning in answer["warnings"]:
        # One about prices is shown if it concerns the first option.
        shown = warning["code"] != "price_not_firm" or any(name in warning["text"] for name in names)
        assert (warning["text"] in browser.text("#answer")) == shown
    assert browser.run("return document.querySelectorAll('.tall tbody tr').length") == len(answer["recommendations"])
    assert browser.run("return document.querySelectorAll('figure svg').length") >= 1
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_and_nothing_is_wider_than_the_window(browser: Browser, width: int, scheme: str) -> None:
    browser.open(width=width, scheme=scheme)
    preset(browser, "RAG")
    browser.answered()
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.until("document.querySelectorAll('.card .later .button').length > 5")
    assert browser.axe() == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_documentation_is_for_everybody_in_both_schemes(browser: Browser, scheme: str, width: int) -> None:
    browser.open("/docs", width=width, scheme=scheme)
    browser.until("document.querySelector('.swagger-ui .opblock-post .opblock-summary-control')")
    browser.click(".opblock-post .opblock-summary-control")
    browser.until("document.querySelectorAll('pre.microlight[tabindex]').length > 1")
    assert browser.run("return document.documentElement.classList.contains('dark-mode')") == (scheme == "dark")
    assert browser.axe() == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


KNOB_OF_OUTPUT = (
    "return document.querySelector(`#knobs [data-path='workload.traffic.output_tokens.mean']`)"
    ".getAttribute('aria-valuetext')"
)


def test_a_link_restores_the_question_and_the_answer(browser: Browser) -> None:
    request = {
        "workload": {
            "phase": "inference",
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "traffic": {"peak_requests_per_s": 4, "input_tokens": {"mean": 900, "p95": 2000}, "output_tokens": 1027},
            "adapters": {"count": 3, "rank": 16},
        },
        "constraints": {"vendors": ["nvidia"], "confidence": 0.9},
        "objective": "cost",
        "limit": 3,
    }
    browser.open(f"/#q={quote(json.dumps(request))}")
    first = browser.answered()
    assert first["request"] == {**request, "include": ["load_curve", "alternatives", "day"]}
    link = browser.run("return document.getElementById('permalink').href")
    browser.open("/" + link.partition("/#")[2].join(("#", "")))
    assert browser.answered()["id"] == first["id"]
    browser.open(f"/#a={first['id']}")
    assert browser.answered()["id"] == first["id"]
    assert browser.run("return document.querySelector('.moved')") is None
    assert browser.run("return document.getElementById('permalink').href") == link
    # An unchanged parameter shows the figure of the request.
    assert browser.run(KNOB_OF_OUTPUT) == "1,027"
    # An answer's own link shows it without asking anew, and the way back leads to the question before.
    preset(browser, "Edge")
    assert browser.answered()["request"]["workload"] == PRESETS["Edge"]["workload"]
    browser.run("delete document.getElementById('answer').dataset.id; history.back()")
    browser.until(f"document.getElementById('answer').dataset.id === '{first['id']}'")
    assert browser.answered()["id"] == first["id"]
    browser.open()
    browser.until("document.getElementById('past').textContent.includes('Llama-3.1-8B')")


def test_numbers_are_read_as_people_type_them(browser: Browser) -> None:
    browser.open()
    preset(browser, "Pretraining")
    browser.answered()
    for typed, tokens in {"1,000,000,000": 1e9, "1 trillion": 1e12, "300b": 3e11, "2.5e9": 2.5e9}.items():
        browser.run("delete document.getElementById('answer').dataset.id")
        browser.type("workload.training_tokens", typed)
        assert browser.answered()["request"]["workload"]["training_tokens"] == tokens
    browser.type("workload.training_tokens", "many")
    assert "70b or 1e9." in browser.until("document.getElementById('problem').textContent")
    assert browser.run("return document.getElementById('result').className") == "stale"
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.type("workload.training_tokens", "1e11")
    browser.answered()
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.type("workload.model", "70b")
    assert browser.answered()["request"]["workload"]["model"] == {"parameters_billion": 70}


# Turned by hand: what of the first option comes back, and in which time.
TURN = (
    "delete document.getElementById('answer').dataset.id; delete document.getElementById('top').dataset.ms;"
    "const k = document.querySelector(`[type=range][data-path='${arguments[0]}']`);"
    "k.value = arguments[1]; k.dispatchEvent(new Event('input', { bubbles: true }));"
)
REMEMBERING = (
    "window.fetch = (path, options) => {"
    "  if (options?.body) window.asked.push([path, JSON.parse(options.body)]); return real(path, options); };"
)
OF_THE_SERVICE_MS = (
    "return performance.getEntriesByType('resource').filter((e) => /recommend(.store=false)?$/.test(e.name))"
    ".at(-1).duration"
)


def test_a_knob_moves_the_first_option_at_once_and_then_the_rest(browser: Browser) -> None:
    browser.open()
    preset(browser, "Chat")  # the first request of a process is slower: this measures a warm service
    browser.answered()
    preset(browser, "RAG")
    before = browser.answered()
    whole_ms = float(browser.run("return document.getElementById('answer').dataset.ms"))
    assert whole_ms - browser.run(OF_THE_SERVICE_MS) < 500
    firsts, wholes, of_the_page = [], [], []
    for place in (0.3, 0.34, 0.38, 0.42, 0.46):
        browser.run(TURN, "workload.traffic.peak_requests_per_s", place)
        wait = float(browser.until("document.getElementById('top').dataset.ms"))
        firsts.append(browser.run(OF_THE_SERVICE_MS))
        of_the_page.append(wait - firsts[-1])
        headline = browser.text("#top .headline")
        answer = browser.answered()
        wholes.append(browser.run(OF_THE_SERVICE_MS))
        # What was shown of the first alone is what the whole answer says of it.
        assert browser.text("#top .headline") == headline
        assert headline.startswith(browser.text(".card.first .headline"))
    assert answer["request"]["workload"]["traffic"]["peak_requests_per_s"] == float(f"{3 * 10**0.46:.3g}")
    assert len(answer["recommendations"]) > len(before["recommendations"]) / 2  # not the first alone
    first, was = answer["recommendations"][0]["cost"], before["recommendations"][0]["cost"]
    assert first["usd_per_hour"] > was["usd_per_hour"]
    assert f"price +{100 * (first['usd_per_hour'] / was['usd_per_hour'] - 1):.0f} %" in browser.text(".moved")
    # The service has nearly all of the time, and less than for a whole answer on the same machine.
    assert sorted(of_the_page)[2] < 60, of_the_page
    assert sum(firsts) < sum(wholes), (firsts, wholes)


def test_agents_and_every_other_parameter_ask_only_among_ranked_options(browser: Browser) -> None:
    """Requests sent while the slider moves are not shown once it rests; the first option has its trade name."""
    browser.open()
    preset(browser, "Agents")
    ranked = browser.answered()["recommendations"]
    browser.run("const real = window.fetch; window.asked = [];" + REMEMBERING)
    browser.run(TURN, "workload.traffic.concurrent_requests", 0.3)
    browser.until("document.getElementById('top').dataset.ms")
    last = browser.answered()["request"]
    paths, asked = zip(*browser.run("return window.asked"), strict=True)
    types = {r["deployment"]["accelerator"] for r in ranked[:5]}
    assert set(asked[0]["constraints"]["accelerators"]) == types and asked[0]["limit"] == 1
    # Previews ask for no further parts and are not stored; the answer that stays is.
    assert paths[0] == "/recommend?store=false" and asked[0]["include"] == [] and paths[-1] == "/recommend"
    # The last request is the whole one, and the only one for all feasible types.
    assert asked[-1] == last and [each["limit"] for each in asked].count(50) == 1
    assert "accelerators" not in last.get("constraints", {})
    assert re.search("rented from [A-Z]", browser.text("#answer"))


def test_prices_and_assumptions_have_knobs(browser: Browser) -> None:
    browser.open()
    preset(browser, "Embeddings")
    first = browser.answered()["recommendations"][0]["deployment"]["accelerator"]
    browser.run(TURN, "economics.discounts", 0.2)
    assert browser.answered()["request"]["economics"] == {"discounts": {first: 0.2}}
    browser.run(TURN, "economics.electricity_usd_per_kwh", 0.3)
    answer = browser.answered()
    assert answer["request"]["economics"] == {
        "discounts": {first: 0.2},
        "electricity_usd_per_kwh": float(f"{0.12 * 10**0.3:.3g}"),
    }
    link = browser.run("return location.hash")
    browser.open(f"/{link}")
    assert browser.answered()["id"] == answer["id"]


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


def change_in_place(browser: Browser, assumption: str, text: str) -> dict[str, Any]:
    """Enter another figure in a row of the assumptions; returns the request that it sends."""
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.run(
        "const i = document.querySelector(`#answer [aria-label='${arguments[0]}']`);"
        "i.focus(); i.value = arguments[1]; i.dispatchEvent(new Event('change', { bubbles: true }))",
        assumption,
        text,
    )
    request: dict[str, Any] = browser.answered()["request"]
    return request


# Opened and filled: what asks the service only when it is wanted.
OPENED = (
    "const d = [...document.querySelectorAll('details.later')].find((d) => d.textContent.startsWith(arguments[0]));"
    "d.open = true;"
)


def test_a_batch_job_has_its_scaling_and_every_ranked_type_its_prices(browser: Browser) -> None:
    browser.open()
    preset(browser, "Batch")
    answer = browser.answered()
    browser.run(OPENED, "Scaling")
    browser.until("document.querySelector('#answer > details.later figure svg') !== null")
    assert "Speed by number of accelerators" in browser.text("#answer > details.later figcaption")
    assert browser.run("return document.querySelector('#answer > details.later .error')") is None
    browser.run(OPENED, "Price history")
    shown = browser.until("document.querySelectorAll('#answer > details.later figure')[1]?.textContent")
    names = browser.run(
        "return Promise.all(arguments[0].map((t) => fetch('/catalog/prices?limit=1&accelerator=' + t)"
        ".then((r) => r.json()).then((page) => page.items.length)))",
        [r["deployment"]["accelerator"] for r in answer["recommendations"]],
    )
    assert any(names) and "Observed on-demand prices" in shown


def test_options_are_compared(browser: Browser) -> None:
    browser.open()
    preset(browser, "Embeddings")
    browser.answered()
    browser.run("for (const b of [...document.querySelectorAll('[name=compared]')].slice(0, 3)) b.click()")
    browser.run("[...document.querySelectorAll('button')].find((b) => b.textContent.startsWith('Compare')).click()")
    browser.until("[...document.querySelectorAll('caption')].some((c) => c.textContent === 'Side by side')")


def test_assumptions_are_changed_in_place(browser: Browser) -> None:
    browser.open()
    preset(browser, "Chat")
    browser.answered()
    browser.run("document.querySelectorAll('#answer details').forEach((d) => { d.open = true; })")
    # In the field that asks for it, where there is one; else by its name.
    assert change_in_place(browser, "TTFT limit, ms", "800")["workload"]["slo"]["ttft_ms"] == 800
    assert change_in_place(browser, "Redundancy", "n+1")["workload"]["availability"] == {"redundancy": "n+1"}
    assert change_in_place(browser, "Weight formats", "bf16")["constraints"] == {"weight_formats": ["bf16"]}
    assert change_in_place(browser, "Planned utilization", "50%")["workload"]["target_utilization"] == 0.5
    assert change_in_place(browser, "busy hour factor", "6")["assumptions"] == {"busy_hour_factor": 6}
    assert ", speed +" in browser.text(".moved")
    assert browser.run("return document.activeElement.getAttribute('aria-label')") == "busy hour factor"
    # Values derived from the users are shown, without an input field.
    assert browser.run("return document.querySelector(\"#answer [aria-label='Requests per second at peak']\")") is None
    browser.run("[...document.querySelectorAll('button')].find((b) => b.textContent.startsWith('Show all')).click()")
    browser.until("document.querySelector(\"#answer [aria-label='activation workspace factor']\")")


@pytest.mark.parametrize(
    ("name", "typed", "says"),
    [
        ("workload.slo.percentile", "120", "Must be at most 99.9"),
        ("constraints.confidence", "99", "Must be at most 0.95"),  # also a slider
        ("workload.traffic.users.count", "", "enter a value"),
        ("constraints.providers", "amazonn", "Did you mean aws"),
        ("economics.discounts", "h100", "h100 sxm 20%"),
        ("more", "[1]", "a JSON object"),
    ],
)
def test_refused_values_are_reported_in_words_at_their_fields(
    browser: Browser, name: str, typed: str, says: str
) -> None:
    browser.open()
    browser.answered()
    browser.type(name, typed)
    browser.until("document.activeElement.id === arguments[0]", name)
    described = browser.run("return document.activeElement.getAttribute('aria-describedby').split(' ')")
    fault = browser.run("return document.getElementById(arguments[0]).textContent", described[-1])
    assert described[-1] == f"{name}-fault" and says in fault
    shown = browser.text("#problem")
    assert says in shown and not re.search("(GET|POST) /|#/", shown)
    browser.complaints()  # the browser reports the 422 itself


def test_additional_fields_may_state_the_load(browser: Browser) -> None:
    workload = {"phase": "training", "model": "resnet-50", "training_samples": 100000000, "deadline_days": 9}
    browser.open(f"/#q={quote(json.dumps({'workload': workload}))}")
    assert browser.answered()["request"]["workload"] == workload


def test_a_corrected_value_is_answered(browser: Browser) -> None:
    browser.open()
    browser.answered()
    browser.type("workload.slo.percentile", "120")
    browser.until("document.activeElement.id === 'workload.slo.percentile'")
    assert browser.axe() == []
    browser.run("delete document.getElementById('answer').dataset.id")
    browser.type("workload.slo.percentile", "99")
    assert browser.answered()["request"]["workload"]["slo"]["percentile"] == 99
    assert browser.run("return document.querySelectorAll('.fault, [aria-invalid]').length") == 0
    browser.complaints()


BUSY_TWICE = """
const real = window.fetch;
let asked = 0;
window.fetch = (...what) => {
  if (++asked > 2) return real(...what);
  const problem = { type: "/problems/overloaded", title: "Busy", detail: "busy" };
  return Promise.resolve(new Response(JSON.stringify(problem), { status: 503, headers: { "Retry-After": "0" } }));
};
"""


def test_a_busy_service_is_asked_again(browser: Browser) -> None:
    browser.open()
    browser.run(BUSY_TWICE)
    preset(browser, "Chat")
    assert browser.answered()["recommendations"]


def test_everything_was_asked_of_the_service_alone(browser: Browser) -> None:
    asked = [url for url in browser.requests() if not url.startswith(("data:", "about:"))]
    assert asked
    assert [url for url in asked if not url.startswith(browser.service)] == []
