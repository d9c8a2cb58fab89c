"""The longest sequence that the service must support."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.workload.arrivals import Arrivals
from app.sizing.workload.lengths import Lengths
from app.sizing.workload.limits import Load

MAX_SEQUENCE_TOKENS = 1e8  # limit for a model that states no context window


@dataclass(frozen=True, slots=True)
class LongestSequence:
    """Lengths that determine the longest sequence, and whether the request gives their spread."""

    prompt: Lengths
    output: Lengths
    prompt_spread_given: bool
    output_spread_given: bool

    def planned_tokens(self, model: ModelArchitecture, arrivals: Arrivals, assumed: Assumptions) -> float:
        """Tokens of a long prompt with a long answer, as an integer.

        An assumed spread counts only for services with many users, and only up to the context window of the model.
        """

        def long_length(length: Lengths, *, spread_given: bool) -> float:
            return max(length.quantile(assumed.context_percentile), length.mean) if spread_given else length.mean

        generates = model.kind is ModelKind.DECODER
        given_tokens = long_length(self.prompt, spread_given=self.prompt_spread_given) + generates * long_length(
            self.output, spread_given=self.output_spread_given
        )
        if arrivals.load not in (Load.OPEN, Load.CLOSED) or arrivals.is_personal(assumed):
            return round_up_tokens(given_tokens)
        spread = long_length(self.prompt, spread_given=True) + generates * long_length(self.output, spread_given=True)
        return round_up_tokens(max(given_tokens, min(spread, model.max_context_tokens or MAX_SEQUENCE_TOKENS)))


def round_up_tokens(tokens: float) -> float:
    """Round tokens up to an integer; rounding errors do not add a token."""
    return float(math.ceil(round(tokens, 6)))


def longest_context_tokens(
    model: ModelArchitecture,
    arrivals: Arrivals,
    longest: LongestSequence,
    requested: float | None,
    assumed: Assumptions,
) -> float:
    """Maximum tokens of a sequence: as requested, or from the lengths.

    Raises Unanswerable if model, load and lengths contradict one another.
    """
    generates = model.kind is ModelKind.DECODER
    if generates and longest.output.mean < 1:
        raise Unanswerable(
            "A model that generates tokens needs output_tokens of at least 1. Only embedding models in the catalog "
            "accept output_tokens 0."
        )
    if arrivals.samples and model.kind is not ModelKind.SAMPLES:
        raise Unanswerable(
            "samples_per_s applies only to models that process samples. Use peak_requests_per_s for this model."
        )
    if requested is not None and requested < longest.prompt.mean + (longest.output.mean if generates else 0):
        raise Unanswerable(
            "max_context_tokens is smaller than the sum of mean input and output tokens. Increase it or omit it."
        )
    tokens = longest.planned_tokens(model, arrivals, assumed) if requested is None else float(requested)
    if model.max_context_tokens and tokens > model.max_context_tokens and model.sample is None:
        origin = "requested" if requested is not None else "needed for long prompts and answers"
        raise Unanswerable(
            f"The context of {tokens:,.0f} tokens {origin} is too long: {model.name} takes at most "
            f"{model.max_context_tokens:,} tokens."
        )
    return tokens
