"""Losses by kind, with the logits that each keeps in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from calibration.tracing.setups import Setup
from calibration.tracing.stand_ins import compiled_loss, fused_head_and_loss, in_place_loss

SPLIT_TOKENS = 128  # tokens per chunk of LitGPT's loss


def loss_of(hidden: Any, head: Any, labels: Any, setup: Setup) -> tuple[Any, Any]:
    """(loss, tensors that the loop also holds) of the last hidden state; the model's forward frees the others."""
    kind, vocab = setup.loss, setup.shape.vocab
    if kind == "fused":
        flat = hidden.reshape(-1, hidden.shape[-1])
        return fused_head_and_loss(flat.to(head.weight.dtype), head.weight, setup.loss_chunks), None
    if kind == "chunked":
        parts = zip(hidden.chunk(setup.loss_chunks, 1), labels.chunk(setup.loss_chunks, 1), strict=True)
        losses = [compiled_loss(head(part).reshape(-1, vocab), target.reshape(-1)) for part, target in parts]
        return torch.stack(losses).sum(), None
    if kind == "chunked_eager":
        formed = [head(part).reshape(-1, vocab) for part in hidden.chunk(setup.loss_chunks, 1)]
        targets = [target.reshape(-1) for target in labels.chunk(setup.loss_chunks, 1)]
        losses = [functional.cross_entropy(x.float(), y) for x, y in zip(formed, targets, strict=True)]
        return torch.stack(losses).sum(), None
    logits = head(hidden)
    if kind == "compiled":
        return compiled_loss(logits, labels), None
    if kind == "in_place":
        return in_place_loss(logits.float(), labels), None
    if kind == "narrow_chunked":
        flat = logits[:, :-1].reshape(-1, vocab)
        pieces = zip(flat.split(SPLIT_TOKENS), labels[:, 1:].reshape(-1).split(SPLIT_TOKENS), strict=True)
        return torch.cat([functional.cross_entropy(x, y, reduction="none") for x, y in pieces]).sum(), None
    if kind == "narrow":
        flat = logits[:, :-1].reshape(-1, vocab)
        return functional.cross_entropy(flat, labels[:, 1:].reshape(-1)), None
    if kind in ("shift", "shifted"):
        narrow = logits if kind == "shifted" else None
        logits = logits.float()
        shifted = logits[:, :-1].contiguous()
        loss = functional.cross_entropy(shifted.view(-1, vocab), labels[:, 1:].reshape(-1))
        return loss, (narrow, logits, shifted) if kind == "shifted" else None
    loss = functional.cross_entropy(logits.view(-1, vocab).float(), labels.view(-1))
    return loss, logits if kind == "held" else None
