"""Sends signed webhooks about events to other systems, with retries.

Headers and signature follow Standard Webhooks 1.0.0 (github.com/standard-webhooks/standard-webhooks, read
2026-11-23), for which receivers have libraries in most languages.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections.abc import Iterable
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
TIMEOUT_S = 10.0
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
    """Delivers due notices to the endpoints in the settings; several processes may each run one."""

    def __init__(
        self, webhooks: Iterable[Webhook], store: DeliveryStore, *, transport: httpx2.BaseTransport | None = None
    ) -> None:
        self._webhooks = {webhook.name: webhook for webhook in webhooks}
        self._store = store
        self._client = httpx2.Client(
            transport=transport, timeout=httpx2.Timeout(TIMEOUT_S), follow_redirects=False, trust_env=False
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="courier", daemon=True)

    def start(self) -> None:
        """Starts delivery in a background thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops delivery. Another process can retry a delivery in progress once its claim has expired."""
        self._stopped.set()
        self._thread.join(timeout=TIMEOUT_S)

    def _run_loop(self) -> None:
        while not self._stopped.is_set():
            try:
                self.deliver_due()
            except DatabaseError as error:
                log.warning("webhooks_not_read", **describe_error(error))
            except Exception as error:
                _log_failure(error)
            self._stopped.wait(POLL_S)

    def deliver_due(self) -> tuple[int, int]:
        """Tries all due notices and returns how many arrived and how many endpoints failed.

        After a failure, the other notices of that endpoint wait, so that it does not delay other endpoints.
        """
        arrived, down = 0, set[str]()
        while not self._stopped.is_set():
            delivery = self._store.claim_due(self._webhooks.keys() - down, now=datetime.now(UTC))
            if delivery is None:
                break
            if self._deliver_notice(delivery):
                arrived += 1
            else:
                down.add(delivery.endpoint)
        return arrived, len(down)

    def _deliver_notice(self, delivery: Delivery) -> bool:
        """Sends one notice and returns whether it arrived, with any 2xx status.

        A redirect counts as a failure; after 410 the notice is not sent again.
        """
        fields = {"notice": delivery.event, "endpoint": delivery.endpoint}
        try:
            status = self._post_notice(delivery)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            status, failure = 0, type(error).__name__
        else:
            failure = f"HTTP {status}"
        if 200 <= status < 300:
            self._store.mark_delivered(delivery)
            telemetry.record_notice("delivered")
            log.info("webhook_delivered", **fields)
            return True
        dead = self._store.mark_failed(delivery, failure, now=datetime.now(UTC), permanently=status == STATUS_GONE)
        telemetry.record_notice("dead" if dead else "failed")
        log.warning("webhook_dead" if dead else "webhook_failed", failure=failure, tries=delivery.tries + 1, **fields)
        return False

    def _post_notice(self, delivery: Delivery) -> int:
        """HTTP status of the endpoint's response; the body is ignored."""
        webhook, now = self._webhooks[delivery.endpoint], int(datetime.now(UTC).timestamp())
        headers = {
            "content-type": "application/json",
            "user-agent": "headroom",
            "webhook-id": delivery.event,
            "webhook-timestamp": str(now),
            "webhook-signature": sign_notice(key_of(webhook.secret), delivery.event, now, delivery.body),
        }
        with self._client.stream("POST", webhook.url, content=delivery.body, headers=headers) as response:
            return int(response.status_code)
