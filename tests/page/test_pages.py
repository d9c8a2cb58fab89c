"""The pages of single tasks and the guide: reachable, accessible, and what each does with the API."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from app.api.routes.pages import PAGES
from app.catalog.keys import Scope, create_key
from app.db import make_engine

if TYPE_CHECKING:
    from tests.page.browser import Browser

pytestmark = pytest.mark.page

README = Path(__file__).parents[2] / "README.md"
# An element that a page shows once its module has run.
READY = {
    "compare": ".option",
    "diagnose": ".drop",
    "market": "svg circle",
    "answers": "#view table, #view p",
    "inventory": ".drop",
    "measurements": ".drop",
    "accuracy": "table",
    "share": "#view p",
}
METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 40
vllm:num_requests_waiting{model_name="m"} 25
vllm:kv_cache_usage_perc{model_name="m"} 0.98
"""
RUN = {
    "model": "llama-3.1-8b-instruct",
    "accelerator": "h100 sxm",
    "accelerators": 1,
    "engine": "vllm",
    "engine_version": "0.30.0",
    "weight_format": "bf16",
    "concurrent_requests": 24,
    "completed_requests": 96,
    "input_tokens": 1024,
    "output_tokens": 256,
    "output_tokens_per_s": 1718,
    "ttft_ms": 460,
    "tpot_ms": 12.4,
}
FILL = (
    "for (const [name, value] of Object.entries(arguments[0])) {"
    " const c = document.querySelector(`#view [name='${name}']`); c.value = value;"
    " c.dispatchEvent(new Event('change', { bubbles: true })); }"
)


def press(browser: Browser, name: str) -> None:
    """Clicks the button of this name on the page."""
    browser.run(
        "[...document.querySelectorAll('#view button')].find((b) => b.textContent === arguments[0]).click()", name
    )


def sign_in(browser: Browser, key: str) -> None:
    """Enters a key in the header."""
    browser.run(
        "document.getElementById('key').value = arguments[0];document.querySelector('#signin form').requestSubmit();",
        key,
    )


def accessible(browser: Browser) -> None:
    """Nothing is wider than the window, and axe-core finds nothing, with every section open."""
    browser.run("document.querySelectorAll('details:not(.later)').forEach((d) => { d.open = true; })")
    assert browser.axe() == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints() == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_accessible(browser: Browser, name: str) -> None:
    for width, scheme in ((1280, "light"), (390, "dark")):
        browser.open(f"/pages/{name}", width=width, scheme=scheme)
        browser.until("document.querySelector(arguments[0])", READY[name])
        accessible(browser)


@pytest.mark.parametrize("path", ["/guide", "/guide/accuracy", "/guide?q=kv+cache", "/problems", "/problems/not-found"])
def test_pages_of_text_are_accessible(browser: Browser, path: str) -> None:
    browser.open(path, width=390, scheme="dark")
    accessible(browser)
    assert browser.run("return [...document.images].every((i) => i.complete && i.naturalWidth > 0)")


def test_options_are_compared_on_their_own_page(browser: Browser) -> None:
    browser.open("/pages/compare")
    browser.until("document.querySelector('.option')")
    press(browser, "Compare")
    heads = "return [...document.querySelectorAll('#view thead th')].map((h) => h.textContent)"
    browser.until("document.querySelector('#view tbody tr')")
    quantity, cloud, own = browser.run(heads)[:3]
    assert quantity == "Quantity" and re.match(r"Best: cloud\d+ × .+, on demand", cloud)
    assert re.match(r"Best: own machines\d+ × ", own)
    assert "_" not in browser.text("#view tbody")


def test_pasted_metrics_are_diagnosed(browser: Browser) -> None:
    browser.open("/pages/diagnose")
    browser.until("document.querySelector('.drop')")
    browser.run(FILL, {"accelerator": "h100 sxm", "count": "1", "software": "vllm", "pasted": METRICS})
    press(browser, "Diagnose")
    found = browser.until("document.querySelector('#view .card h3')?.textContent")
    assert "98 %" in found and "25 requests" in found


def test_a_measurement_is_stored_and_its_effect_shown(browser: Browser) -> None:
    browser.open("/pages/measurements")
    browser.until("document.querySelector('.drop')")
    browser.run(FILL, {"pasted": json.dumps(RUN)})
    press(browser, "Store")
    cells = (
        "const s = [...document.querySelectorAll('section section')].find((s) => s.textContent.startsWith('What it'));"
        "return s && [...s.querySelectorAll('td')].map((c) => Number(c.textContent.replace(',', '')))"
    )
    browser.until(f"(() => {{ {cells} }})()")
    before, after, tpot_before, tpot_after = browser.run(cells)
    assert before > after and tpot_before < tpot_after
    browser.run("document.querySelector('#view [aria-label^=Delete]').click()")
    browser.until("document.getElementById('view').textContent.includes('Nothing is stored.')")


def test_a_stored_answer_is_priced_again_and_approved(browser: Browser) -> None:
    browser.open()
    identity = browser.answered()["id"]
    browser.open(f"/pages/answers?id={identity}")
    browser.until("document.querySelector('#view fieldset')")
    browser.until("document.activeElement.tagName === 'H2'")
    press(browser, "Price again")
    browser.until(
        "[...document.querySelectorAll('#view caption')].some((c) => c.textContent === 'Bill then and today')"
    )
    browser.run(FILL, {"by": "J. Doe"})
    press(browser, "Approve")
    browser.until("document.querySelector('#view h2 + p')?.textContent.includes(': approved')")
    browser.open(f"/pages/share?id={identity}")
    assert browser.until("document.querySelector('.tiles')?.textContent")


def test_own_hardware_is_stored_and_ranks_in_an_answer(browser: Browser, sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    with engine.begin() as connection:
        key, _ = create_key(connection, tenant="page", name="page", scopes={Scope.ADMIN}, now=datetime.now(UTC))
    engine.dispose()
    browser.open("/pages/inventory")
    browser.until("document.querySelector('.drop')")
    sign_in(browser, key)
    browser.run(FILL, {"name": "rack 4", "accelerator": "h100 sxm", "count": "24", "free": "16"})
    press(browser, "Store")
    assert "H100 SXM5" in browser.until("document.querySelector('#view tbody')?.textContent")
    browser.open()
    assert "from your inventory" in browser.until("document.querySelector('#top h2')?.textContent")
    browser.open("/pages/inventory")
    browser.until("document.querySelector('[aria-label=\"Delete rack 4\"]')")
    browser.run("document.querySelector('[aria-label=\"Delete rack 4\"]').click()")
    browser.until("document.getElementById('view').textContent.includes('Nothing is stored.')")
    browser.run("document.querySelector('#signin [type=button]').click()")


def test_a_key_is_sent_and_kept_in_the_tab_only(browser: Browser) -> None:
    browser.open("/pages/answers")
    browser.until("document.querySelector('#view table, #view p')")
    browser.run(
        "window.sent = []; const real = window.fetch; window.fetch = (path, options) => {"
        " window.sent.push(options.headers?.Authorization); return real(path, options); };"
    )
    sign_in(browser, "hr_none")
    assert "key" in browser.until("document.querySelector('#view .error')?.textContent")
    sent, stored = browser.run("return [window.sent, JSON.stringify([localStorage, document.cookie])]")
    browser.run("document.querySelector('#signin [type=button]').click()")
    assert set(sent) == {"Bearer hr_none"} and "hr_none" not in stored
    browser.until("!document.querySelector('#view .error')")
    browser.complaints()  # the browser reports the 401


def test_the_picture_in_the_documents_is_current(browser: Browser, tmp_path: Path) -> None:
    """It shows today's decision on README's request. If it does not, the test writes the picture that does."""
    request = README.read_text().partition("chat.json <<'END'\n")[2].partition("\nEND\n")[0]
    browser.open(f"/#q={quote(request)}")
    browser.answered()
    shape = {"width": 1280, "height": 1900, "deviceScaleFactor": 0.75, "mobile": False}
    browser.window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    browser.window.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    taken = Image.open(BytesIO(b64decode(browser.window.execute_cdp_cmd("Page.captureScreenshot", {})["data"])))
    decision, newer = PngInfo(), tmp_path / "page.png"
    decision.add_itxt("Description", browser.text("#top"))
    taken.convert("RGB").quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        newer, optimize=True, pnginfo=decision
    )
    with Image.open(README.parent / "docs" / "page.png") as known:
        assert known.size == taken.size
        assert known.info.get("Description") == browser.text("#top"), f"cp {newer} docs/page.png"
