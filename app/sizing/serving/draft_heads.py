"""Published drafts of models: multi-token prediction layers and EAGLE heads, with the acceptance of their sources.

The rows are in `app/sizing/data/draft_heads.csv`. Of several heads of a model, the first one is offered.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.facts import build_rows
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import DraftMethod, Speculative

ANY_MODEL = "*"  # any model with a multi-token prediction layer and without a row of its own
MAX_OFFERED_TOKENS = 3  # drafted tokens of an offer; longer drafts pay for single requests only
HALVINGS = 40


@dataclass(frozen=True, slots=True)
class DraftHead:
    """A published draft of a model, and the tokens that a verified step gained with it.

    `accepted_tokens` includes the token that the model itself adds, between `low` and `high` by kind of text, with
    `draft_tokens` drafted tokens. `head` is the repository of an EAGLE head.
    """

    model: str
    method: DraftMethod
    draft_tokens: int
    accepted_tokens: float
    low: float
    high: float
    source: str
    as_of: str
    head: str = ""

    def speculative_at(self, accepted_tokens: float) -> Speculative:
        """Settings to offer, if a step gained `accepted_tokens` with the published number of drafted tokens."""
        rate = round(acceptance_rate(accepted_tokens, self.draft_tokens), 3)
        return Speculative(self.method, min(self.draft_tokens, MAX_OFFERED_TOKENS), rate)

    @property
    def speculative(self) -> Speculative:
        """Settings to offer."""
        return self.speculative_at(self.accepted_tokens)

    @property
    def name(self) -> str:
        """The draft as text."""
        return "its MTP layer" if self.method is DraftMethod.MTP else f"the EAGLE-3 head {self.head}"

    @property
    def acceptance_note(self) -> str:
        """What the offer assumes, with the range by kind of text and the source, as text."""
        low, high = (self.speculative_at(tokens).tokens_per_step for tokens in (self.low, self.high))
        return (
            f"acceptance of {self.speculative.tokens_per_step:.2f} tokens per step is an assumption "
            f"({low:.2f} to {high:.2f} by kind of text; {self.source}): measure it with your own texts"
        )


def acceptance_rate(accepted_tokens: float, draft_tokens: int) -> float:
    """Probability that a drafted token is accepted, from the tokens that a verified step gains; 0 to 1.

    Parameters:
        accepted_tokens: mean tokens per step, the model's own included.
        draft_tokens: tokens drafted per step.
    Limits: every drafted token is accepted with the same probability.
    Check: 1 + 0.8 + 0.64 + 0.512 tokens with three drafts.
        >>> round(acceptance_rate(2.952, 3), 6)
        0.8
    """
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = Speculative(DraftMethod.NGRAM, draft_tokens, middle).tokens_per_step >= accepted_tokens
        low, high = (low, middle) if enough else (middle, high)
    return high


DRAFT_HEADS: tuple[DraftHead, ...] = build_rows(DraftHead, "draft_heads.csv")


def published_draft(model: ModelArchitecture) -> DraftHead | None:
    """The draft to offer for a model: its multi-token prediction layer, else its first published head; None without
    either.
    """
    own = [head for head in DRAFT_HEADS if head.model == model.name]
    if not model.mtp_params:
        return next((head for head in own if head.method is not DraftMethod.MTP), None)
    layers = (head for head in (*own, *DRAFT_HEADS) if head.method is DraftMethod.MTP)
    return next(head for head in layers if head.model in (model.name, ANY_MODEL))


def eagle_head(model_name: str) -> str | None:
    """Repository of the first published EAGLE head of a model; None if none is known."""
    return next((h.head for h in DRAFT_HEADS if h.model == model_name and h.method is DraftMethod.EAGLE), None)
