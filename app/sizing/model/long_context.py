"""Longer windows that model cards publish: a scaling of the positions (RoPE) that the configuration leaves out.

The rows are in `app/sizing/data/context_extensions.csv`.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.facts import build_rows


@dataclass(frozen=True, slots=True)
class ContextExtension:
    """The scaling of positions that a model's card names for longer texts."""

    model: str
    method: str
    factor: int
    original_tokens: int
    source: str
    as_of: str

    @property
    def tokens(self) -> int:
        """Longest context with the scaling."""
        return self.original_tokens * self.factor


EXTENSIONS = {row.model: row for row in build_rows(ContextExtension, "context_extensions.csv")}


def describe_extension(model_name: str, tokens: float) -> str:
    """How the card of a model extends its window and how to ask for that; empty without a published extension."""
    known = EXTENSIONS.get(model_name)
    if known is None:
        return ""
    text = f" Its model card names {known.method} with factor {known.factor} for at most {known.tokens:,} tokens"
    if tokens > known.tokens:
        return f"{text}, which is not enough either."
    return (
        f"{text}. To size that, send its config.json as `huggingface_config` with max_position_embeddings "
        f"{known.tokens}, and start the engine with this scaling, which may lower quality on short texts."
    )
