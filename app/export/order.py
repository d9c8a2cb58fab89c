"""Order details that a buyer states: parties, delivery, payment and dates, with the labels of printed documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date


@dataclass(frozen=True, slots=True)
class OrderDetails:
    """What the buyer states for an order or a quote request. Documents print an empty line for a missing detail."""

    buyer: str | None = None  # company that buys
    buyer_address: str | None = None
    buyer_contact: str | None = None  # person, with e-mail or telephone
    buyer_tax_id: str | None = None
    supplier: str | None = None  # dealer of the hardware; cloud providers are named by their lines
    delivery_address: str | None = None
    incoterm: str | None = None  # Incoterms 2020 code
    payment_terms: str | None = None
    lead_time_days: int | None = None  # longest acceptable time from order to delivery
    due_date: date | None = None  # day by which a supplier must answer
    valid_until: date | None = None  # day until which a quote must be valid
    term_months: int | None = None  # months that rentals by the hour and running costs are ordered for

    def stated(self) -> Iterator[tuple[str, str]]:
        """Names and texts of the details that are stated, in the order of the fields."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                yield each.name, value.isoformat() if isinstance(value, date) else str(value)


ORDER_LABELS = {
    "buyer": "Buyer",
    "buyer_address": "Buyer's address",
    "buyer_contact": "Contact",
    "buyer_tax_id": "Tax ID",
    "supplier": "Supplier",
    "delivery_address": "Delivery address",
    "incoterm": "Incoterm (2020)",
    "payment_terms": "Payment terms",
    "lead_time_days": "Lead time, days",
    "due_date": "Reply by",
    "valid_until": "Quote valid until",
    "term_months": "Term, months",
}
