"""Rejects accelerator types that no allowed software supports, with the rule that excludes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.support.records import Work
from app.sizing.hardware.support.words import unsupported_text
from app.sizing.product_names import format_name, product_name
from app.sizing.snapshot import Catalog


@dataclass(frozen=True, slots=True)
class SupportFilter:
    """The requested engines, weight formats and kind of work; without engines, any engine counts."""

    catalog: Catalog
    engines: tuple[str, ...]
    formats: frozenset[str]
    work: Work

    def reject_unsupported(self, rejections: Rejections, before: Codes, after: Codes) -> None:
        """Reject the types that have rows in `before` and none in `after`."""
        code = "no_framework" if self.work.is_training else "no_engine"
        few = len(self.formats) < 3
        formats = " or ".join(format_name(f) for f in sorted(self.formats)) if few else "the allowed formats"
        if self.work.precision:  # compute precision, if it differs from the storage format of the weights
            formats = f"{formats} with {format_name(self.work.precision)}"
        engines = " or ".join(map(product_name, self.engines))
        text = f"{unsupported_text(engines, self.work)} in {formats} on {{name}}."
        rejections.reject_by_rule(np.setdiff1d(before, after), code, text, self.refusal_rule)

    def refusal_rule(self, accelerator: int) -> str:
        """The support rule that excludes a type; empty if the software runs there and something else is missing."""
        return self.catalog.software.refusal_reason(accelerator, self.engines, self.formats, self.work)
