"""The most that given hardware trains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.catalog.snapshot import CatalogStore
from app.errors import Conflict
from app.sizing.snapshot import Catalog
from tests.examples import LLAMA_70B
from tests.sizing.training.layouts import IN_PLACE, WORKLOAD, asked


@pytest.mark.parametrize("quantity", ["parameters", "sequence_length", "micro_batch"])
def test_the_maximum_fits_and_the_next_does_not(catalog: Catalog, quantity: str) -> None:
    workload = replace(WORKLOAD, phase="fine_tuning", global_batch=16)
    found = asked(catalog, workload, maximize=quantity, accelerators_per_replica=8)
    assert found.fits
    assert found.maximum is not None
    assert found.memory is not None
    assert found.memory.total_bytes <= found.memory.usable_bytes
    value, more = found.maximum.value, found.maximum.too_large
    assert more > value
    if quantity == "sequence_length":
        longer = replace(workload, units_per_sequence=more)
        assert not asked(catalog, longer, accelerators_per_replica=8, **IN_PLACE).fits
        assert asked(catalog, replace(workload, units_per_sequence=value), accelerators_per_replica=8).fits
    if quantity == "parameters":
        assert 2e10 < value < 2e11  # 640 GB of memory, states offloaded or sharded


def test_more_accelerators_take_larger_models(catalog: Catalog) -> None:
    sizes = [asked(catalog, WORKLOAD, maximize="parameters", accelerators_per_replica=n).maximum for n in (1, 8, 64)]
    values = [m.value for m in sizes if m is not None]
    assert values == sorted(values)
    assert values[0] < values[2]


def test_nothing_to_maximize_is_said(catalog: Catalog, catalog_store: CatalogStore) -> None:
    with pytest.raises(Conflict, match="samples"):
        resnet = replace(
            WORKLOAD, model=catalog_store.find_model("microsoft/resnet-50"), units_per_sequence=1.0, global_batch=256
        )
        asked(catalog, resnet, maximize="sequence_length", accelerators_per_replica=8)
    with pytest.raises(Conflict, match="Nothing fits"):
        asked(catalog, replace(WORKLOAD, model=LLAMA_70B), maximize="micro_batch", accelerators_per_replica=1)
