"""Sellers' machine names state the accelerator and its count, in the spelling of each seller."""

from __future__ import annotations

import pytest

from app.catalog.machine_names import TABLES, read_machine_names
from app.catalog.snapshot import CatalogStore

# Names of the SkyPilot catalog and of the sellers' own price lists, with what each seller says it contains.
MACHINES = {
    "1x_H200_SECURE": ("nvidia-h200-sxm-141gb", 1),
    "8x_H100_SECURE": ("nvidia-h100-pcie-80gb", 8),
    "8x_H100-SXM_SECURE": ("nvidia-h100-sxm5-80gb", 8),
    "1x_RTX6000-Ada_COMMUNITY": ("nvidia-rtx-6000-ada", 1),
    "gpu_8x_b200": ("nvidia-b200-sxm-180gb", 8),
    "gpu_8x_a100": ("nvidia-a100-sxm4-40gb", 8),
    "gpu_4x_a100": ("nvidia-a100-pcie-40gb", 4),
    "gpu_8x_v100_n": ("nvidia-v100-sxm2-16gb", 8),
    "BM.GPU.B4.8": ("nvidia-a100-sxm4-40gb", 8),
    "BM.GPU.L40S-NC.4": ("nvidia-l40s", 4),
    "gpu-mi300x8-1536gb": ("amd-mi300x", 8),
    "n3-H100-SXM5x8": ("nvidia-h100-sxm5-80gb", 8),
    "n1-RTX-A6000x4": ("nvidia-rtx-a6000", 4),
    "gx3d-160x1792x8h100": ("nvidia-h100-sxm5-80gb", 8),
    "gx3-48x240x2l40s": ("nvidia-l40s", 2),
    "h100-80gb-sxm-ib.8x": ("nvidia-h100-sxm5-80gb", 8),
    "l40s-48gb.10x": ("nvidia-l40s", 10),
    "H100-SXM-8-80G": ("nvidia-h100-sxm5-80gb", 8),
    "gd-8xh100ib-i128": ("nvidia-h100-sxm5-80gb", 8),
    "gb200-4x": ("nvidia-gb200-186gb", 4),
    "gd-1xgh200": ("nvidia-gh200-96gb", 1),
    "1x-RTX_4090-16-65536": ("nvidia-rtx-4090", 1),
    "RTX_A6000_48GB::2": ("nvidia-rtx-a6000", 2),
    "gpu-b300-sxm_8gpu-192vcpu-2768gb": ("nvidia-b300-sxm-270gb", 8),
    "vbm-256c-2048gb-8-h100-gpu": ("nvidia-h100-sxm5-80gb", 8),
    "A100-80Gx8": ("nvidia-a100-pcie-80gb", 8),
    "ct5lp-hightpu-4t": ("google-tpu-v5e", 4),
    "tpu-v6e-8": ("google-tpu-v6e", 8),
    "a3-edgegpu-8g": ("nvidia-h100-sxm5-80gb", 8),
    "trn2.48xlarge": ("aws-trainium2", 16),
    "ml.p4de.24xlarge": ("nvidia-a100-sxm4-80gb", 8),
    "ml.g5.2xlarge": ("nvidia-a10g", 1),
    "8H100.80S.176V": ("nvidia-h100-sxm5-80gb", 8),
    "1B200.30V": ("nvidia-b200-sxm-180gb", 1),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_name_states_the_accelerator_and_its_count(catalog_store: CatalogStore, name: str) -> None:
    match = catalog_store.directory().resolve_name(name)
    assert match.is_machine
    assert (match.accelerators, match.count) == ((MACHINES[name][0],), MACHINES[name][1])


def test_every_machine_of_the_catalog_has_its_own_count(catalog_store: CatalogStore) -> None:
    directory = catalog_store.directory()
    for system in directory.catalog.systems.values():
        if system.accelerator_count >= 1 and directory.resolve_name(system.slug).is_machine:
            assert directory.resolve_name(system.slug).count == system.accelerator_count


def test_boards_of_the_tables_are_accelerators_of_the_catalog(catalog_store: CatalogStore) -> None:
    slugs = {*TABLES.boards.values(), *(slug for each in TABLES.patterns for slug in each.gpus.values())}
    assert slugs <= catalog_store.directory().slugs


def test_an_accelerator_is_not_read_as_a_machine() -> None:
    for name in ("H100", "RTX 4090", "MI300X", "B200", "L40S 48GB"):
        assert not read_machine_names(name)
