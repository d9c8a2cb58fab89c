"""FSDP over a fake process group: no communication happens, and its buffers are formed as they would be."""

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

from app.calibration.tracing.counter import Counter
from app.calibration.tracing.setups import Setup

GATHERING = ("unshard", "wait_for_unshard")
COLLECTIVES = ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce")


@contextmanager
def mesh_of(shards: int) -> Iterator[Any]:
    """A mesh of that many ranks; made outside the fake mode, which cannot form it. None for one."""
    if shards <= 1:
        yield None
        return
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=shards)
    try:
        yield init_device_mesh("cpu", (shards,))
    finally:
        distributed.destroy_process_group()


def shard(model: Any, setup: Setup, mesh: Any) -> None:
    """Every layer a unit, and the ends with the root, as frameworks wrap decoders; the last layer stays gathered,
    for backward begins with it.
    """
    narrow = setup.weights == "sharded" and not setup.frozen
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if narrow else None, reduce_dtype=torch.float32 if narrow else None
    )
    last = model.layers[-1]
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=layer is not last)
    fully_shard(model, mesh=mesh, mp_policy=policy)


class Done:
    """A collective that was never begun."""

    def wait(self) -> bool:
        return True


@contextmanager
def sharding_on_meta() -> Iterator[None]:
    """FSDP takes the meta device for one that computes: its streams are the processor's, its collectives do nothing."""
    meta = torch.device("meta")
    with ExitStack() as stack:
        for module in (_fsdp_collectives, _fsdp_init, _fsdp_param_group, _fsdp_state):
            stack.enter_context(patch.object(module, "_get_device_handle", lambda _: torch.cpu))
        stack.enter_context(patch.object(_fully_shard, "_get_device_from_mesh", lambda _: meta))
        stack.enter_context(patch.object(FSDPParamGroup, "_validate_no_meta_params", lambda _: None))
        for name in COLLECTIVES:
            stack.enter_context(patch.object(distributed, name, lambda *_, **__: Done()))
        yield


@contextmanager
def gathering_counted(counter: Counter) -> Iterator[None]:
    """What FSDP forms to gather and to reduce is counted as gathered; the shards' gradients it leaves as gradients."""
    with ExitStack() as stack:
        for name in (*GATHERING, "post_backward"):
            stack.enter_context(patch.object(FSDPParamGroup, name, _counted(counter, name)))
        yield


def _counted(counter: Counter, name: str) -> Any:
    own = getattr(FSDPParamGroup, name)

    def wrapped(group: Any, *args: Any, **kwargs: Any) -> Any:
        with counter.as_part("gathered"):
            result = own(group, *args, **kwargs)
        if name == "post_backward":
            for each in group.fsdp_params:
                grad = each.sharded_param.grad
                if grad is not None:
                    counter.is_part(grad, "grads")
        return result

    return wrapped
