"""Findings: what each states about the deployment, and the advice that `data/findings.csv` has for its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.sizing.facts import build_rows


@dataclass(frozen=True, slots=True)
class Evidence:
    """Observed value of a quantity and its expected value. `expected` is None if there is no expectation."""

    quantity: str
    observed: float
    expected: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, its cause, its cost and a change that fixes it.

    `share`: share of time, requests or money that the problem costs. `gain`: share that the change recovers. None means
    unknown. `settings`: deployment fields after the change. `explains`: codes of findings that follow from this one, or
    that cannot be separated from it, whatever their size. `accounts_for`: codes of findings that this one explains up
    to its own share.
    """

    code: str
    text: str
    share: float | None
    evidence: tuple[Evidence, ...]
    cause: str
    change: str
    gain: float | None
    do_not_buy: str | None = None
    explains: tuple[str, ...] = ()
    accounts_for: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def known_cost_share(self) -> float:
        """Share that the finding is known to cost; 0 if the cost is unknown."""
        return self.share or 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """What findings of one code say in every case: one row of findings.csv.

    Names in braces in `cause` and `change` are placeholders, which the check fills in.
    """

    code: str
    cause: str
    change: str
    do_not_buy: str | None = None
    explains: tuple[str, ...] = ()
    accounts_for: tuple[str, ...] = ()


ADVICE = {row.code: row for row in build_rows(Advice, "findings.csv")}


def build_finding(
    code: str,
    text: str,
    share: float | None,
    evidence: tuple[Evidence, ...],
    gain: float | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    **words: object,
) -> Finding:
    """A finding with the advice of its code. `words` fill in the placeholders of its cause and change."""
    advice = ADVICE[code]
    return Finding(
        code,
        text,
        share,
        evidence,
        advice.cause.format(**words),
        advice.change.format(**words),
        gain,
        advice.do_not_buy,
        advice.explains,
        advice.accounts_for,
        settings or {},
    )
