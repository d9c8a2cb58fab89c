"""The longest sequence that is planned for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.workload.arrivals import Arrivals
from app.sizing.workload.lengths import Lengths
from app.sizing.workload.limits import Load

MOST_TOKENS = 1e8  # of a sequence, where a model says nothing


@dataclass(frozen=True, slots=True)
class Longest:
    """Lengths that the longest sequence follows from, and of which of them somebody told the spread."""

    prompt: Lengths
    output: Lengths
    prompt_told: bool
    output_told: bool

    def tokens(self, model: ModelArchitecture, arrivals: Arrivals, assumed: Assumptions) -> float:
        """A long prompt with a long answer, in whole tokens. A spread that is assumed counts where many are served,
        and only as far as the model goes.
        """

        def long(length: Lengths, *, told: bool) -> float:
            return max(length.quantile(assumed.context_percentile), length.mean) if told else length.mean

        generates = model.kind is ModelKind.DECODER
        said = long(self.prompt, told=self.prompt_told) + generates * long(self.output, told=self.output_told)
        if arrivals.load not in (Load.OPEN, Load.CLOSED) or arrivals.personal(assumed):
            return whole(said)
        spread = long(self.prompt, told=True) + generates * long(self.output, told=True)
        return whole(max(said, min(spread, model.max_context_tokens or MOST_TOKENS)))


def whole(tokens: float) -> float:
    """Whole tokens that hold so many; what rounding adds is none."""
    return float(math.ceil(round(tokens, 6)))


def context_tokens(
    model: ModelArchitecture, arrivals: Arrivals, longest: Longest, asked: float | None, assumed: Assumptions
) -> float:
    """Tokens the longest sequence may have: as asked, or as the lengths are.

    Raises Unanswerable where model, load and lengths contradict one another.
    """
    generates = model.kind is ModelKind.DECODER
    if generates and longest.output.mean < 1:
        raise Unanswerable(
            "A model that generates tokens needs output_tokens of at least 1; an embedding model of the catalogue "
            "takes output_tokens 0."
        )
    if arrivals.samples and model.kind is not ModelKind.SAMPLES:
        raise Unanswerable("samples_per_s is for models that work on samples; this one takes peak_requests_per_s.")
    if asked is not None and asked < longest.prompt.mean + (longest.output.mean if generates else 0):
        raise Unanswerable("max_context_tokens is smaller than the mean input and output together.")
    tokens = longest.tokens(model, arrivals, assumed) if asked is None else float(asked)
    if model.max_context_tokens and tokens > model.max_context_tokens and model.sample is None:
        said = "was asked for" if asked is not None else "is what long prompts and answers come to"
        raise Unanswerable(
            f"A context of {tokens:,.0f} tokens {said}; {model.name} takes at most {model.max_context_tokens:,}."
        )
    return tokens
