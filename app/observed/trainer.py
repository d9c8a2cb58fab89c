"""What a trainer's log looks like: lines as patterns, whose groups say what stands there.

Groups: `step` its number, `of` how many there are; of a step `seconds`, `milliseconds`, `rate` (steps a second),
`samples` (a second), `device_tokens` (a second, of one accelerator); `step_tokens` and `step_sequences` go through one;
`mfu` in percent; `memory_gib`, `memory_bytes` of an accelerator; `watts`; parts of a step as `optimizer_ms`,
`communication_ms`, `input_ms`; `saving` and `saved` when a checkpoint begins and ends, `saved_s`, `saved_ms` how long
it took; `evaluated_s`, `evaluated_ms`; `ran_s` the whole run and `run_rate` its steps a second; `retries` of the
allocator; `begun` a start.
Limits: no pattern looks for one thing after another across a line, so that none takes long on any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"(?<![\d.,])\d++(?:,\d{3})*+(?:\.\d++)?+(?:[eE][-+]?\d++)?+"
Patterns = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class Trainer:
    """A trainer by its lines: `steps` tell it from others, `fields` stand in lines of steps, `others` in any line."""

    name: str
    title: str
    steps: Patterns
    fields: Patterns = ()
    others: Patterns = ()

    def said(self, line: str) -> dict[str, float]:
        """All that a line says; what is no number is there or not."""
        marks = [found for pattern in self.steps if (found := pattern.search(line))]
        further = (*(self.fields if marks else ()), *self.others)
        every = [*marks, *(found for pattern in further if (found := pattern.search(line)))]
        return {
            name: value
            for found in every
            for name, text in found.groupdict().items()
            if text is not None and 0 <= (value := number(text)) < 1e15
        }


def number(text: str) -> float:
    """A number as logs write it; 1 for a word that is there."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 1.0


def patterns(*texts: str) -> Patterns:
    """Patterns in which <name> is a number that is called so."""
    return tuple(
        re.compile(re.sub(r"(?<!P)<(\w+)>", lambda found: f"(?P<{found[1]}>{NUMBER})", text)) for text in texts
    )
