"""Traces one training step on fake tensors: optimizer states, forward, loss, backward and update."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from calibration.tracing.counter import Counter, watch_resizes
from calibration.tracing.losses import loss_of
from calibration.tracing.models import Decoder
from calibration.tracing.narrowing import manual_autocast
from calibration.tracing.optimizers import optimizer_of, step_in_backward
from calibration.tracing.setups import Setup, Traced
from calibration.tracing.sharding import count_gathering, mesh_of, shard_model, sharding_on_meta


def trace(setup: Setup, *, fake: bool = False) -> Traced:
    """The peak memory of one step of this setup, traced on the meta device.

    With `fake`, the trace uses fake tensors on the CPU: the result is the same and takes several times as long.
    """
    began = time.perf_counter()
    on_meta = not fake
    with ExitStack() as stack:
        mesh = stack.enter_context(mesh_of(setup.shards))
        for each in (torch.device("meta"), sharding_on_meta()) if on_meta else (FakeTensorMode(),):
            stack.enter_context(each)
        counter = Counter(setup.shape.vocab, on_meta=on_meta)
        for each in (watch_resizes(counter), count_gathering(counter), counter, without_collection()):
            stack.enter_context(each)
        params = _run_step(setup, counter, mesh)
    return Traced(
        peak_bytes=float(counter.peak),
        reserved_bytes=float(counter.allocator.reserved_bytes),
        moment=counter.peak_moment,
        operator=counter.peak_operator,
        parts={part: float(nbytes) for part, nbytes in counter.peak_parts.items()},
        moments={moment: float(nbytes) for moment, nbytes in counter.moments.items()},
        params=params,
        seconds=time.perf_counter() - began,
    )


@contextmanager
def without_collection() -> Iterator[None]:
    """Disables garbage collection, so that a trace is deterministic."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _run_step(setup: Setup, counter: Counter, mesh: Any) -> int:
    model = Decoder(setup)
    count = int(sum(p.numel() for p in model.parameters()))
    if mesh is not None:
        shard_model(model, setup, mesh)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = None if setup.optimizer == "none" else optimizer_of(trained, setup)
    if optimizer is not None:
        _form_states(optimizer, trained, counter)
    in_backward = setup.optimizer_implementation == "in_backward"
    _prepare_gradients(setup, trained, counter)
    if not setup.has_gradient_buffers:
        for p in trained:
            p.register_post_accumulate_grad_hook(lambda p: counter.assign_part(p.grad, "grads"))
    if in_backward and optimizer is not None:
        step_in_backward(trained, optimizer)

    tokens = torch.empty(setup.batch, setup.sequence, dtype=torch.int64)
    model.at_last, model.at_first = _moment_hook(counter, "backward"), _moment_hook(counter, "gradients")
    counter.part, counter.moment = "kept", "loss"
    counter.start_watching()
    loss, held = _run_forward(model, tokens, setup)
    counter.part = "working"
    loss.backward()
    del loss, held
    counter.part, counter.moment = "update", "update"
    if optimizer is not None and not in_backward:
        counter.record_peak()
        copies = [p.grad.float() for p in trained] if setup.gradients == "copied" else []
        optimizer.step()
        del copies
    return count


def _run_forward(model: Any, tokens: Any, setup: Setup) -> tuple[Any, Any]:
    by_hand = torch.empty(0).is_meta
    model.narrows = setup.computes_under_autocast and by_hand
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=setup.computes_under_autocast and not by_hand)
    with autocast, manual_autocast(wanted=model.narrows):
        return loss_of(model(tokens), model.head, tokens, setup)


def _moment_hook(counter: Counter, name: str) -> Any:
    def set_moment(_: Any) -> None:
        counter.moment = name

    return set_moment


def _form_states(optimizer: Any, trained: list[Any], counter: Counter) -> None:
    """Allocates the optimizer's states as a first step does; its gradients are freed."""
    with counter.counting_as("optimizer"):
        for p in trained:
            p.grad = torch.empty_like(p)
        optimizer.step()
        for p in trained:
            p.grad = None


def _prepare_gradients(setup: Setup, trained: list[Any], counter: Counter) -> None:
    """Allocates gradients that exist before forward: of earlier micro-batches, or buffers that accumulate gradients."""
    with counter.counting_as("grads"):
        if setup.has_gradient_buffers:
            dtype = torch.float32 if setup.gradients == "32bit" else torch.bfloat16
            buffers = {p: torch.empty_like(p, dtype=dtype) for p in trained}

            def add_to_buffer(p: Any) -> None:
                buffers[p].add_(p.grad)
                p.grad = None

            for p in trained:
                p.register_post_accumulate_grad_hook(add_to_buffer)
        elif setup.accumulates:
            for p in trained:
                p.grad = torch.empty_like(p)
