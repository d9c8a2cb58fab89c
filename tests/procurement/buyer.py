"""A buyer's side, as its system and its user's browser behave: it asks, follows pages, and takes baskets in."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin
from xml.sax.saxutils import escape

from lxml import etree
from starlette.testclient import TestClient

from app.procurement.partners import Buyer

HERE = "https://headroom.example"
HOOK = "https://srm.acme.example/hook?sid=1&lang=en"
SECRET, PASSWORD = "correct horse battery", "staple-of-acme-1"
ACME = Buyer(
    name="acme",
    hosts=("srm.acme.example", "*.hub.example"),
    identity="AN01000000001",
    secrets=("the secret before it", SECRET),
    username="acme-buyer",
    passwords=(PASSWORD,),
    sees_labels=("punch-out",),
)
OTHER = Buyer(
    name="other", hosts=("buy.other.example",), identity="987654321", domain="DUNS", secrets=("others' secret!",)
)
SEQUENCE = count(1)
FORM = "application/x-www-form-urlencoded"


@dataclass
class HtmlForm:
    method: str
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)


class Forms(HTMLParser):
    """The forms of a page, with what a browser would send."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[HtmlForm] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(HtmlForm(attributes["method"], attributes["action"]))
        elif tag == "input" and "name" in attributes:
            self.found[-1].fields.append((attributes["name"], attributes.get("value", "")))


def setup_request(
    operation: str = "create",
    *,
    secret: str = SECRET,
    identity: str = "AN01000000001",
    domain: str = "NetworkId",
    hook: str | None = HOOK,
    cookie: str = "cookie-1",
    payload: str | None = None,
    items: str = "",
) -> str:
    """A PunchOutSetupRequest as procurement systems write it."""
    back = "" if hook is None else f"<BrowserFormPost><URL>{escape(hook)}</URL></BrowserFormPost>"
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE cXML SYSTEM "http://xml.cxml.org/schemas/cXML/1.2.063/cXML.dtd">
<cXML payloadID="{payload or f"{next(SEQUENCE)}@acme.example"}" timestamp="2026-11-23T09:00:00+00:00" xml:lang="en">
<Header>
<From><Credential domain="{domain}"><Identity>{identity}</Identity></Credential></From>
<To><Credential domain="DUNS"><Identity>123456789</Identity></Credential></To>
<Sender><Credential domain="{domain}"><Identity>{identity}</Identity><SharedSecret>{escape(secret)}</SharedSecret>
</Credential><UserAgent>A buyer</UserAgent></Sender>
</Header>
<Request deploymentMode="test"><PunchOutSetupRequest operation="{operation}">
<BuyerCookie>{escape(cookie)}</BuyerCookie><Extrinsic name="User">jane</Extrinsic>{back}{items}
</PunchOutSetupRequest></Request></cXML>"""


def item_out(part: str, auxiliary: str) -> str:
    """A line of a basket that the buyer has kept."""
    return (
        '<ItemOut quantity="1" lineNumber="1"><ItemID>'
        f"<SupplierPartID>{escape(part)}</SupplierPartID><SupplierPartAuxiliaryID>{escape(auxiliary)}"
        "</SupplierPartAuxiliaryID></ItemID></ItemOut>"
    )


def parsed(document: bytes) -> Any:
    return etree.fromstring(document, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))


@dataclass
class BuyerSide:
    """One buyer's system and browser."""

    service: TestClient
    dtd: etree.DTD
    page: str = ""
    url: str = ""

    def ask(self, request: str | bytes, media_type: str = "text/xml; charset=UTF-8") -> Any:
        """The response to a setup request, valid by the DTD."""
        sent = self.service.post("/procurement/punchout", content=request, headers={"content-type": media_type})
        assert sent.status_code == 200
        assert sent.headers["content-type"].startswith("text/xml")
        root = parsed(sent.content)
        assert self.dtd.validate(root), self.dtd.error_log
        return root

    def status(self, request: str | bytes, media_type: str = "text/xml; charset=UTF-8") -> str:
        found: str = self.ask(request, media_type).find("Response/Status").get("code")
        return found

    def open(self, **asked: Any) -> str:
        """A session, with its start page in the browser; its address."""
        root = self.ask(setup_request(**asked))
        assert root.find("Response/Status").get("code") == "200", etree.tostring(root)
        self.url = root.findtext(".//StartPage/URL")
        self.page = self.get(self.url).text
        return self.url

    def get(self, url: str, status: int = 200) -> Any:
        sent = self.service.get(url)
        assert sent.status_code == status, sent.text
        return sent

    def forms(self) -> list[HtmlForm]:
        return Forms(self.page).found

    def submit(self, form: HtmlForm, status: int = 200) -> Any:
        """What the service answers to a form; a redirect is followed."""
        address = urljoin(self.url, form.action)
        if form.method == "get":
            sent = self.service.get(f"{address}?{urlencode(form.fields)}")
        else:
            sent = self.service.post(address, content=urlencode(form.fields), headers={"content-type": FORM})
        if sent.status_code == 303:
            sent = self.service.get(urljoin(address, sent.headers["location"]))
        assert sent.status_code == status, sent.text
        self.page = sent.text
        return sent

    def choose(self, answer: str, rank: int) -> HtmlForm:
        """The form of the session's options that hands over one rank."""
        self.page = self.get(f"{self.url}?recommendation={answer}").text
        wanted = [("recommendation", answer), ("rank", str(rank))]
        return next(form for form in self.forms() if form.fields == wanted)

    def home(self) -> HtmlForm:
        """The form that the browser posts home."""
        (form,) = self.forms()
        assert form.method == "post"
        return form

    def basket(self, cookie: str = "cookie-1") -> Any:
        """The message in the form, as it arrives, valid by the DTD."""
        form = self.home()
        assert form.action == HOOK
        ((name, message),) = parse_qsl(urlencode(form.fields), strict_parsing=True)
        assert name == "cxml-urlencoded"
        root = parsed(message.encode())
        assert self.dtd.validate(root), self.dtd.error_log
        assert root.findtext(".//BuyerCookie") == cookie
        return root
