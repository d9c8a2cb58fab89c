"""A headless Chromium on the page of a running service, and what it saw and asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

AXE = (Path(__file__).parent / "axe.min.js").read_text()
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)


class Browser:
    """One window; every request it makes is remembered."""

    def __init__(self, chromium: str, driver: str, service: str) -> None:
        options = ChromeOptions()
        options.binary_location = chromium
        for argument in QUIET.split():
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.window = Chrome(options=options, service=Service(driver))
        self.service = service
        self.asked: list[str] = []

    def open(self, path: str = "/", width: int = 1280, scheme: str = "light") -> None:
        """A page at this width in this colour scheme, freshly loaded."""
        shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
        scheme_asked = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.window.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme_asked)
        self.window.get("about:blank")
        self.window.get(self.service + path)

    def run(self, script: str, *given: Any) -> Any:
        return self.window.execute_script(script, *given)

    def until(self, expression: str, *given: Any, within_s: float = 20) -> Any:
        """The value of an expression once it is true."""
        waiting = WebDriverWait(self.window, within_s, poll_frequency=0.02)
        return waiting.until(lambda window: window.execute_script(f"return {expression}", *given), expression)

    def answered(self) -> dict[str, Any]:
        """The answer that is shown, as the service stored it."""
        self.until("document.getElementById('answer').dataset.id && !document.querySelector('[aria-busy]')")
        identity = self.run("return document.getElementById('answer').dataset.id")
        return cast(
            "dict[str, Any]",
            self.window.execute_async_script(
                "fetch('/recommendations/' + arguments[0]).then((r) => r.json()).then(arguments[1])", identity
            ),
        )

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def type(self, name: str, text: str) -> None:
        """Another value in a field of the form, as by hand."""
        self.run(
            "const f = document.getElementById('form').elements[arguments[0]]; f.value = arguments[1];"
            "for (const e of ['input', 'change']) f.dispatchEvent(new Event(e, { bubbles: true }));",
            name,
            text,
        )

    def press(self, *keys: str) -> None:
        """Keys by name, or a text, as a keyboard sends them to whatever has the focus; one held key goes first."""
        chain = ActionChains(self.window)
        if keys[0] == "CONTROL":
            chain.key_down(Keys.CONTROL).send_keys(*keys[1:]).key_up(Keys.CONTROL).perform()
        else:
            chain.send_keys(*(getattr(Keys, key, key) for key in keys)).perform()

    def requests(self) -> list[str]:
        """Addresses of everything that was asked for since the browser started."""
        for entry in self.window.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
        return self.asked

    def complaints(self) -> list[str]:
        """Errors of the console: scripts that failed, what the content policy refused."""
        return [entry["message"] for entry in self.window.get_log("browser") if entry["level"] == "SEVERE"]

    def axe(self, impacts: tuple[str, ...] = ("minor", "moderate", "serious", "critical")) -> list[str]:
        """Findings of axe-core with these impacts, each with an element."""
        self.run(AXE)
        found = self.window.execute_async_script(
            "axe.run(document, { resultTypes: ['violations'] }).then(arguments[arguments.length - 1])"
        )
        return [f"{v['id']}: {v['nodes'][0]['html'][:200]}" for v in found["violations"] if v["impact"] in impacts]
