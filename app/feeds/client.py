"""The HTTP client of all price feeds: checked addresses, limits of time and size, retries, conditional requests."""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

import httpx2
import orjson

from app.catalog.hub import Network, Resolve, is_public, is_within, resolve_async, resolve_host
from app.extras import import_extra

TRIES = 5
MAX_WAIT_S = 60.0  # longest pause between two tries, whatever Retry-After says
MAX_REDIRECTS = 3
STOP_CHECK_S = 0.5  # between two looks at whether the service ends
MAX_BYTES = 64 * 2**20
MAX_JSON_BYTES = 32 * 2**20  # parsed JSON takes about 20 times its size
MAX_LINE_BYTES = 64 * 2**10
LONG_LINE = f"A line is longer than {MAX_LINE_BYTES // 2**10} KiB, the limit."
MAX_URL_CHARACTERS = 8192
MAX_ETAG_CHARACTERS = 200
IN_MEMORY_BYTES = 8 * 2**20  # larger bodies go to a temporary file
PUBLIC_HEADERS = {"user-agent": "headroom", "accept-encoding": "gzip"}
RETRIED = frozenset((408, 425, 429, 500, 502, 503, 504))
RETRIED_GRPC = frozenset(("4", "8", "14"))  # deadline exceeded, resource exhausted, unavailable
REDIRECTS = frozenset((301, 302, 303, 307, 308))


KeepLine = Callable[[bytes], bool]


class FeedError(Exception):
    """A feed gave no usable answer; the text says why, and names no key."""


class _Temporary(FeedError):
    """A failure after which a later try may succeed."""

    def __init__(self, detail: str, wait_s: float | None = None) -> None:
        super().__init__(detail)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Fetched:
    """The body of an answer as a file, its digest, and its ETag. The file is open until the client's next fetch."""

    file: IO[bytes]
    sha256: str
    etag: str | None
    size: int  # bytes

    def read(self) -> bytes:
        """Returns the whole body."""
        self.file.seek(0)
        return self.file.read()

    def json(self) -> Any:
        """Returns the body as JSON. Raises FeedError."""
        if self.size > MAX_JSON_BYTES:
            raise FeedError(f"The answer is larger than {MAX_JSON_BYTES / 2**20:,.0f} MiB, the limit for JSON.")
        try:
            return orjson.loads(self.read())
        except orjson.JSONDecodeError as error:
            raise FeedError("The answer is no JSON.") from error

    def text(self) -> str:
        """Returns the body as text. Raises FeedError."""
        try:
            return self.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise FeedError("The answer is no UTF-8 text.") from error


class FeedClient:
    """Fetches from price feeds. `networks` lists private networks that they may be in; `stopped` ends every wait."""

    def __init__(
        self,
        *,
        networks: Sequence[Network] = (),
        resolve: Resolve = resolve_host,
        connect_s: float = 10.0,
        read_s: float = 120.0,
        deadline_s: float = 900.0,
        first_wait_s: float = 1.0,
        stopped: threading.Event | None = None,
        http2: bool = False,
    ) -> None:
        self._networks, self._resolve = networks, resolve
        self._timeouts_s = connect_s, read_s
        self._deadline_s, self._first_wait_s = deadline_s, first_wait_s
        self._stopped = stopped or threading.Event()
        self._body: IO[bytes] | None = None
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(connect_s, read=read_s),
            follow_redirects=False,
            trust_env=False,
            http1=not http2,
            http2=http2,
        )
        self._loop = asyncio.Runner()  # one for all fetches, which share connections

    def with_http2(self) -> FeedClient:
        """Returns a client of the same limits that speaks only HTTP/2, as gRPC requires. Raises MissingExtra."""
        import_extra("h2", "nebius", "HTTP/2")
        connect_s, read_s = self._timeouts_s
        return FeedClient(
            networks=self._networks,
            resolve=self._resolve,
            connect_s=connect_s,
            read_s=read_s,
            deadline_s=self._deadline_s,
            first_wait_s=self._first_wait_s,
            stopped=self._stopped,
            http2=True,
        )

    def close(self) -> None:
        """Closes all connections and the last body."""
        self._close_body()
        self._loop.run(self._http.aclose())
        self._loop.close()

    def _close_body(self) -> None:
        if self._body is not None:
            self._body.close()

    def fetch(
        self,
        url: str,
        *,
        etag: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        max_bytes: int = MAX_BYTES,
        keep_line: KeepLine | None = None,
    ) -> Fetched | None:
        """Returns the answer to a GET, or to a POST if there is a body; None if it is the one with this ETag. A body
        that is not bytes is sent as JSON. With `keep_line`, only these lines of the answer are stored.

        Tries up to five times within the deadline. Raises FeedError.
        """
        sent = {**PUBLIC_HEADERS, **(headers or {})}
        if etag is not None:
            sent["if-none-match"] = etag
        until = time.monotonic() + self._deadline_s
        for attempt in range(TRIES):
            try:
                return self._loop.run(self._fetch_until(until, self._follow(url, sent, body, max_bytes, keep_line)))
            except _Temporary as trouble:
                self._check_time(until, trouble)
                if attempt == TRIES - 1:
                    raise FeedError(f"{trouble} ({TRIES} tries)") from trouble
                pause = self._first_wait_s * 2**attempt * random.uniform(0.5, 1.5)
                self._stopped.wait(min(MAX_WAIT_S, max(pause, trouble.wait_s or 0.0)))
        raise AssertionError

    def _check_time(self, until: float, cause: Exception | None = None) -> None:
        """Raises FeedError after the deadline, or if the service stops."""
        if self._stopped.is_set():
            raise FeedError("The service is shutting down.") from cause
        if time.monotonic() > until:
            raise FeedError(f"The feed took longer than {self._deadline_s:,.0f} s to answer.") from cause

    async def _fetch_until(self, until: float, answer: Coroutine[Any, Any, Fetched | None]) -> Fetched | None:
        """Waits for an answer until the deadline or the end of the service, however slowly headers or body arrive."""
        fetching = asyncio.ensure_future(answer)
        try:
            while not fetching.done():
                self._check_time(until)
                await asyncio.wait({fetching}, timeout=min(STOP_CHECK_S, max(0.0, until - time.monotonic())))
            return fetching.result()
        finally:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)  # closes the connection

    def fetch_whole(self, url: str, **how: Any) -> Fetched:
        """Returns the answer to an unconditional request. Raises FeedError."""
        fetched = self.fetch(url, **how)
        if fetched is None:
            raise FeedError("The feed answered 304 to a request without an ETag.")
        return fetched

    async def _follow(
        self, url: str, headers: Mapping[str, str], body: Any, max_bytes: int, keep_line: KeepLine | None
    ) -> Fetched | None:
        """Sends one request and follows redirects to checked addresses. Only the feed's own server receives the
        caller's headers, which may have a key.
        """
        own = url
        for _ in range(MAX_REDIRECTS + 1):
            try:
                sent = headers if url is own or origin_of(url) == origin_of(own) else PUBLIC_HEADERS
                request = await self._build_request(url, sent, body)
                response = await self._http.send(request, stream=True)
                try:
                    if response.status_code in REDIRECTS:
                        url = _redirect_target(url, response.headers.get("location", ""))
                        continue
                    return await self._read(response, max_bytes, keep_line)
                finally:
                    await response.aclose()
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                raise _Temporary(f"The feed did not answer completely ({type(error).__name__}).") from error
            except httpx2.InvalidURL as error:
                raise FeedError("The feed's address is no URL.") from error
        raise FeedError(f"The feed redirected more than {MAX_REDIRECTS} times.")

    async def _build_request(self, url: str, headers: Mapping[str, str], body: Any) -> httpx2.Request:
        """Returns a request to the checked address of the URL's host, under the host's name."""
        if len(url) > MAX_URL_CHARACTERS:
            raise FeedError(f"The feed's address is longer than {MAX_URL_CHARACTERS:,} characters.")
        try:
            parts = urlsplit(url)
            host, port = str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise FeedError("The feed's address is no URL.") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise FeedError("The feed's address is no plain http or https URL.")
        try:
            addresses = await resolve_async(self._resolve, host, port)
        except (OSError, UnicodeError) as error:
            raise _Temporary(f"The host {host} could not be looked up.") from error
        if not addresses or not all(is_public(a) or is_within(a, self._networks) for a in addresses):
            raise FeedError(
                f"An address of {host} is not public, so it was not contacted. If the feed is in a private network, "
                "add that to HEADROOM_PRICE_FEED_NETWORKS."
            )
        address = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
        target = f"{parts.scheme}://{address}:{port}{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        named = {**headers, "host": parts.netloc}
        content = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        if content is not None:
            named.setdefault("content-type", "application/json")
        method, extensions = "GET" if content is None else "POST", {"sni_hostname": host}
        return self._http.build_request(method, target, headers=named, content=content, extensions=extensions)

    async def _read(self, response: httpx2.Response, max_bytes: int, keep_line: KeepLine | None) -> Fetched | None:
        """Returns the body of a response within the limits; None for 304."""
        status = response.status_code
        if status == 304:
            return None
        if status in RETRIED:
            raise _Temporary(f"The feed answered {status}.", _retry_after_s(response.headers.get("retry-after")))
        if status != 200:
            raise FeedError(f"The feed answered {status}.")
        if (refusal := response.headers.get("grpc-status", "0")) != "0":
            raise (_Temporary if refusal in RETRIED_GRPC else FeedError)(
                f"The feed answered gRPC status {refusal[:3]}."
            )
        self._close_body()
        digest, size, rest = hashlib.sha256(), 0, b""
        file = self._body = tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115 - the caller reads it
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > max_bytes:
                raise FeedError(f"The answer is larger than {max_bytes / 2**20:,.0f} MiB, the limit.")
            digest.update(chunk)
            if keep_line is None:
                file.write(chunk)
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise FeedError(LONG_LINE)
            file.writelines(line + b"\n" for line in lines if keep_line(line))
        if keep_line is not None and keep_line(rest):
            file.write(rest)
        file.seek(0)
        return Fetched(file, digest.hexdigest(), _plain_etag(response.headers.get("etag")), size)


def _plain_etag(text: str | None) -> str | None:
    """Returns an ETag that fits a column and a header; None for any other."""
    return text if text and len(text) <= MAX_ETAG_CHARACTERS and text.isascii() and text.isprintable() else None


def _retry_after_s(text: str | None) -> float | None:
    """Returns the seconds that a Retry-After header states, as a number or as a date."""
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _redirect_target(url: str, location: str) -> str:
    try:
        following = urljoin(url, location)
        encrypted = origin_of(following)[0] == "https"
    except ValueError as error:
        raise FeedError("The feed redirected to a location that is no address.") from error
    if not location or (origin_of(url)[0] == "https" and not encrypted):
        raise FeedError("The feed redirected to no address or to an unencrypted one.")
    return following


def origin_of(url: str) -> tuple[str, str]:
    """Returns the scheme and the host of a URL, with its port. Raises ValueError."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


MAX_PAGES = 2_000
MAX_PAGING_S = 3600.0


def read_pages(first: str, read_page: Callable[[str], str | None]) -> None:
    """Reads pages until one names no next page. Raises FeedError if they repeat or do not end within an hour."""
    seen, url, until = set[str](), first, time.monotonic() + MAX_PAGING_S
    while True:
        if url in seen or len(seen) >= MAX_PAGES or time.monotonic() > until:
            raise FeedError("The pages of the feed do not end.")
        seen.add(url)
        following = read_page(url)
        if not following:
            return
        try:
            url = urljoin(url, following)
            moved = origin_of(url) != origin_of(first)
        except ValueError as error:
            raise FeedError("The next page of the feed is no address.") from error
        if moved:
            raise FeedError("The next page of the feed is on another server.")
