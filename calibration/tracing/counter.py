"""A dispatch mode that counts every live storage: the exact peak, its moment, operator and parts."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from calibration.tracing.caching import Block, CachingAllocator
from calibration.tracing.setups import MOMENTS, PARTS


class LiveStorage:
    """One live storage: its bytes, the part that it counts to, and its block of the allocator."""

    __slots__ = ("block", "nbytes", "part", "watch")

    def __init__(self, nbytes: int, part: str, block: Block | None, watch: Any) -> None:
        self.nbytes, self.part, self.block, self.watch = nbytes, part, block, watch


class KnownOutputs:
    """Cache of output shapes of operators by input shapes.

    On the meta device an output is only its shape, and inferring that shape takes most of an operator's time.
    """

    def __init__(self) -> None:
        self._fresh: dict[Any, bool] = {}
        self._found: dict[Any, Any] = {}

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's output as a new tensor."""
        if not self._gives_one_fresh_tensor(func):
            return func(*args, **kwargs)
        key = (
            func,
            tuple(map(_argument_key, args)),
            tuple((name, _argument_key(value)) for name, value in kwargs.items()),
        )
        try:
            found = self._found.get(key)
        except TypeError:  # an argument that cannot be hashed, such as a list
            return func(*args, **kwargs)
        if found is not None:
            return torch.empty_strided(found[0], found[1], dtype=found[2], device="meta")
        out = func(*args, **kwargs)
        if any(isinstance(a, torch.Tensor) and _storage_key(a) == _storage_key(out) for a in args):  # a view
            self._fresh[func] = False
            return out
        self._found[key] = tuple(out.shape), out.stride(), out.dtype
        return out

    def _gives_one_fresh_tensor(self, func: Any) -> bool:
        known = self._fresh.get(func)
        if known is None:
            returns = func._schema.returns
            known = len(returns) == 1 and returns[0].alias_info is None and str(returns[0].type) == "Tensor"
            known = known and not func._schema.is_mutable
            self._fresh[func] = known
        return known


def _storage_key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _argument_key(value: Any) -> Any:
    """Key of an argument: everything that determines the operator's output."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype
    return tuple(map(_argument_key, value)) if isinstance(value, (list, tuple)) else (type(value), value)


class Counter(TorchDispatchMode):
    """Counts the outputs of operators; a storage counts once, independent of its views, until it is freed.

    `part` and `moment` label new storages. Logits and casts of parameters are recognized by their tensors.
    """

    known = KnownOutputs()

    def __init__(self, vocab: int, *, on_meta: bool = False) -> None:
        super().__init__()
        self.on_meta = on_meta
        self.allocator = CachingAllocator()
        self.vocab = vocab
        self.part, self.moment = "params", "loss"
        self.total = 0
        self.by_part = dict.fromkeys(PARTS, 0)
        self.peak, self.peak_operator, self.peak_moment = 0, "", "loss"
        self.peak_parts = dict(self.by_part)
        self.moments = dict.fromkeys(MOMENTS, 0)
        self.watching = False
        self._live: dict[int, LiveStorage] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(t, DTensor) for t in types):
            return NotImplemented
        out = self.known.run_operator(func, args, kwargs or {}) if self.on_meta else func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self._count_storage(out, func, args)
        elif isinstance(out, (tuple, list)):
            for each in out:
                if isinstance(each, torch.Tensor):
                    self._count_storage(each, func, args)
        return out

    def _count_storage(self, tensor: Any, func: Any, args: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        nbytes = storage.nbytes()
        part = self._part_of(tensor, func, args)
        watch = weakref.ref(storage, lambda _: self._on_freed(key))
        self._live[key] = LiveStorage(nbytes, part, self.allocator.allocate_block(nbytes), watch)
        self._add_bytes(part, nbytes, func)

    def _part_of(self, tensor: Any, func: Any, args: Any) -> str:
        part = self.part
        if part in ("kept", "working"):
            shape = tensor.shape
            if len(shape) >= 2 and shape[-1] == self.vocab and func is not torch.ops.aten.embedding_dense_backward:
                return "logits"
            if func is torch.ops.aten._to_copy.default:
                source = self._live.get(args[0].untyped_storage()._cdata)
                if source is not None and source.part == "params":
                    return "casts"
        return part

    def _add_bytes(self, part: str, nbytes: int, func: Any) -> None:
        self.total += nbytes
        self.by_part[part] += nbytes
        self.record_peak(func)

    def record_peak(self, operator: object = "") -> None:
        """Updates the peak of the current moment and the overall peak."""
        if not self.watching:
            return
        self.moments[self.moment] = max(self.moments[self.moment], self.total)
        if self.total > self.peak:
            self.peak, self.peak_moment, self.peak_operator = self.total, self.moment, str(operator)
            self.peak_parts = dict(self.by_part)

    def _on_freed(self, key: int) -> None:
        held = self._live.pop(key)
        self.total -= held.nbytes
        self.by_part[held.part] -= held.nbytes
        self.allocator.release_block(held.block)

    def on_resized(self, storage: Any) -> None:
        """Accounts for a storage that was resized in place, as FSDP does to free and gather."""
        held = self._live.get(storage._cdata)
        if held is None or held.nbytes == storage.nbytes():
            return
        self.allocator.release_block(held.block)
        self.total -= held.nbytes
        self.by_part[held.part] -= held.nbytes
        held.nbytes = storage.nbytes()
        held.block = self.allocator.allocate_block(held.nbytes)
        self._add_bytes(held.part, held.nbytes, "resize_")

    def assign_part(self, tensor: Any, part: str) -> None:
        """Reassigns a storage to another part."""
        if isinstance(tensor, DTensor):
            tensor = tensor._local_tensor
        held = self._live.get(tensor.untyped_storage()._cdata)
        if held is not None:
            self.by_part[held.part] -= held.nbytes
            self.by_part[part] += held.nbytes
            held.part = part

    def start_watching(self) -> None:
        """Starts counting peaks; memory that the allocator reserved before is discarded."""
        self.watching = True
        self.allocator = CachingAllocator()
        for held in self._live.values():
            held.block = self.allocator.allocate_block(held.nbytes)
        self.record_peak()

    @contextmanager
    def counting_as(self, part: str) -> Iterator[None]:
        """Counts storages that are created inside the context to this part."""
        before, self.part = self.part, part
        try:
            yield
        finally:
            self.part = before


@contextmanager
def watch_resizes(counter: Counter) -> Iterator[None]:
    """Reports in-place resizes of storages to the counter."""
    own = torch.UntypedStorage.resize_

    def resize_(storage: Any, size: int) -> Any:
        result = own(storage, size)
        counter.on_resized(storage)
        return result

    torch.UntypedStorage.resize_ = resize_
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = own
