"""FSDP over a fake process group: nothing is communicated, and all buffers are allocated as in a real run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard import (
    _fsdp_collectives,
    _fsdp_init,
    _fsdp_param_group,
    _fsdp_state,
    _fully_shard,
)
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
from torch.testing._internal.distributed.fake_pg import FakeStore

from calibration.tracing.counter import Counter
from calibration.tracing.setups import Setup

GATHERING = ("unshard", "wait_for_unshard")
COLLECTIVES = ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce")


@contextmanager
def mesh_of(shards: int) -> Iterator[Any]:
    """A device mesh of this many ranks; None for one. The fake mode does not support it: create it outside."""
    if shards <= 1:
        yield None
        return
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=shards)
    try:
        yield init_device_mesh("cpu", (shards,))
    finally:
        distributed.destroy_process_group()


def shard_model(model: Any, setup: Setup, mesh: Any) -> None:
    """Shards every layer as a unit, and embedding and head with the root, as frameworks wrap decoders.

    The last layer stays gathered because backward begins with it.
    """
    narrow = setup.weights == "sharded" and not setup.frozen
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if narrow else None, reduce_dtype=torch.float32 if narrow else None
    )
    last = model.layers[-1]
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=layer is not last)
    fully_shard(model, mesh=mesh, mp_policy=policy)


class CompletedCollective:
    """A collective that completes at once."""

    def wait(self) -> bool:
        return True


@contextmanager
def sharding_on_meta() -> Iterator[None]:
    """Makes FSDP accept the meta device: it uses the CPU's streams, and collectives do nothing."""
    meta = torch.device("meta")
    with ExitStack() as stack:
        for module in (_fsdp_collectives, _fsdp_init, _fsdp_param_group, _fsdp_state):
            stack.enter_context(patch.object(module, "_get_device_handle", lambda _: torch.cpu))
        stack.enter_context(patch.object(_fully_shard, "_get_device_from_mesh", lambda _: meta))
        stack.enter_context(patch.object(FSDPParamGroup, "_validate_no_meta_params", lambda _: None))
        for name in COLLECTIVES:
            stack.enter_context(patch.object(distributed, name, lambda *_, **__: CompletedCollective()))
        yield


@contextmanager
def count_gathering(counter: Counter) -> Iterator[None]:
    """Counts FSDP's all-gather and reduce-scatter buffers as `gathered`, and the gradients of shards as gradients."""
    with ExitStack() as stack:
        for name in (*GATHERING, "post_backward"):
            stack.enter_context(patch.object(FSDPParamGroup, name, _counting_call(counter, name)))
        yield


def _counting_call(counter: Counter, name: str) -> Any:
    own = getattr(FSDPParamGroup, name)

    def call_counted(group: Any, *args: Any, **kwargs: Any) -> Any:
        with counter.counting_as("gathered"):
            result = own(group, *args, **kwargs)
        if name == "post_backward":
            for each in group.fsdp_params:
                grad = each.sharded_param.grad
                if grad is not None:
                    counter.assign_part(grad, "grads")
        return result

    return call_counted
