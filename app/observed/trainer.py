"""Log format of a trainer: patterns for its lines, whose named groups are the values.

Groups: `step` is the number of the step and `of` the number of steps. Step times are `seconds`, `milliseconds`,
`rate` (steps per second), `samples` (per second) or `device_tokens` (per second and accelerator). `step_tokens` and
`step_sequences` are the size of a step; `mfu` is in percent; `memory_gib` and `memory_bytes` are per accelerator;
`watts` is power per accelerator. Parts of a step are `optimizer_ms`, `communication_ms` and `input_ms`. `saving` and
`saved` mark the beginning and end of a checkpoint; `saved_s` and `saved_ms` are its duration. `evaluated_s` and
`evaluated_ms` are evaluation time. `ran_s` is the duration of the run and `run_rate` its steps per second.
`retries` counts allocator retries; `begun` marks a start.
Limits: no pattern searches for one item after another across a line, so matching is fast on any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Greedy, not possessive: before 3.11.4 Python loses groups with possessive quantifiers.
NUMBER = r"(?<![\d.,])\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?"
Patterns = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class Trainer:
    """Patterns for the lines of one trainer: `steps` identify it, `fields` are read from step lines, `others` from any
    line.
    """

    name: str
    title: str
    steps: Patterns
    fields: Patterns = ()
    others: Patterns = ()

    def parse_line(self, line: str) -> dict[str, float]:
        """All values of a line. A word without a number has the value 1."""
        marks = [found for pattern in self.steps if (found := pattern.search(line))]
        further = (*(self.fields if marks else ()), *self.others)
        every = [*marks, *(found for pattern in further if (found := pattern.search(line)))]
        return {
            name: value
            for found in every
            for name, text in found.groupdict().items()
            if text is not None and 0 <= (value := parse_number(text)) < 1e15
        }


def parse_number(text: str) -> float:
    """A number as logs write it; 1 for a word."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 1.0


def compile_patterns(*texts: str) -> Patterns:
    """Compile patterns in which <name> stands for a number in a group of that name."""
    return tuple(
        re.compile(re.sub(r"(?<!P)<(\w+)>", lambda found: f"(?P<{found[1]}>{NUMBER})", text)) for text in texts
    )
