"""Sends signed webhooks about events to other systems, with retries.

Headers and signature follow Standard Webhooks 1.0.0 (github.com/standard-webhooks/standard-webhooks, read
2026-11-23), for which receivers have libraries in most languages.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx2
import structlog

from app import telemetry
from app.catalog.outbox import Delivery, DeliveryStore
from app.db import DatabaseError
from app.errors import describe_error
from app.procurement.partners import Webhook, key_of

log = structlog.get_logger("headroom")

POLL_S = 1.0
TIMEOUT_S = 10.0  # of one attempt in total, from the look-up of the host to the status of the answer
STATUS_GONE = 410


def sign_notice(key: bytes, event: str, timestamp: int, body: bytes) -> str:
    """Signature that proves the sender and the time of a notice.

    Check: the example of the standard's own libraries.
        >>> key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        >>> sign_notice(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
        'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = hmac.new(key, b".".join((event.encode(), str(timestamp).encode(), body)), hashlib.sha256)
    return f"v1,{base64.b64encode(signed.digest()).decode()}"


def _log_failure(error: Exception) -> None:
    log.error("webhooks_failed", **describe_error(error))


class WebhookSender:
    """Delivers due notices to the endpoints in the settings, each in a thread of its own, so that no endpoint delays
    another. Several processes may each run one.
    """

    def __init__(
        self, webhooks: Iterable[Webhook], store: DeliveryStore, *, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._webhooks = {webhook.name: webhook for webhook in webhooks}
        self._store, self._transport = store, transport
        self._tls = ssl.create_default_context()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run_loop, args=(name,), name=f"courier-{name}", daemon=True)
            for name in self._webhooks
        ]
        telemetry.expect_endpoints(self._webhooks)

    def start(self) -> None:
        """Starts delivery in background threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stops delivery. Another process can retry a delivery in progress once its claim has expired."""
        self._stopped.set()
        until = time.monotonic() + TIMEOUT_S
        for thread in self._threads:
            thread.join(timeout=max(0.0, until - time.monotonic()))

    def _run_loop(self, endpoint: str) -> None:
        while not self._stopped.is_set():
            try:
                self._deliver_to(endpoint)
            except DatabaseError as error:
                log.warning("webhooks_not_read", **describe_error(error))
            except Exception as error:
                _log_failure(error)
            self._stopped.wait(POLL_S)

    def deliver_due(self) -> tuple[int, int]:
        """Tries all due notices and returns how many arrived and how many endpoints failed."""
        if not self._webhooks:
            return 0, 0
        with ThreadPoolExecutor(len(self._webhooks), thread_name_prefix="courier") as threads:
            results = list(threads.map(self._deliver_to, self._webhooks))
        return sum(arrived for arrived, _ in results), sum(failed for _, failed in results)

    def _deliver_to(self, endpoint: str) -> tuple[int, bool]:
        """Tries the due notices of one endpoint until one fails. Returns how many arrived and whether one failed."""
        arrived = 0
        while not self._stopped.is_set():
            delivery = self._store.claim_due([endpoint], now=datetime.now(UTC))
            if delivery is None:
                break
            if not self._deliver_notice(delivery):
                return arrived, True
            arrived += 1
        return arrived, False

    def _deliver_notice(self, delivery: Delivery) -> bool:
        """Sends one notice and returns whether it arrived, with any 2xx status.

        A redirect counts as a failure; after 410 the notice is not sent again.
        """
        fields = {"notice": delivery.event, "endpoint": delivery.endpoint}
        try:
            status = asyncio.run(self._post_notice(delivery))
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            status, failure = 0, type(error).__name__
        else:
            failure = f"HTTP {status}"
        if 200 <= status < 300:
            self._store.mark_delivered(delivery)
            telemetry.record_notice(delivery.endpoint, "delivered")
            log.info("webhook_delivered", **fields)
            return True
        dead = self._store.mark_failed(delivery, failure, now=datetime.now(UTC), permanently=status == STATUS_GONE)
        telemetry.record_notice(delivery.endpoint, "dead" if dead else "failed")
        log.warning("webhook_dead" if dead else "webhook_failed", failure=failure, tries=delivery.tries + 1, **fields)
        return False

    async def _post_notice(self, delivery: Delivery) -> int:
        """HTTP status of the endpoint's response; the body is ignored. Raises TimeoutError after TIMEOUT_S in total,
        however slowly the endpoint answers.
        """
        webhook, now = self._webhooks[delivery.endpoint], int(datetime.now(UTC).timestamp())
        headers = {
            "content-type": "application/json",
            "user-agent": "headroom",
            "webhook-id": delivery.event,
            "webhook-timestamp": str(now),
            "webhook-signature": sign_notice(key_of(webhook.secret), delivery.event, now, delivery.body),
        }
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx2.AsyncClient(
                transport=self._transport, verify=self._tls, timeout=TIMEOUT_S, follow_redirects=False, trust_env=False
            ) as client,
            client.stream("POST", webhook.url, content=delivery.body, headers=headers) as response,
        ):
            return int(response.status_code)
