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
    "ml.p2.xlarge": ("nvidia-k80", 1),
    "p2.16xlarge": ("nvidia-k80", 16),
    "g3.8xlarge": ("nvidia-m60", 2),
    "Standard_NC24r": ("nvidia-k80", 4),
    "Standard_ND12s": ("nvidia-p40", 2),
    "Standard_NV24": ("nvidia-m60", 4),
    "Standard_NV48s_v3": ("nvidia-m60", 4),
    "2x_RTXPRO4000_SECURE": ("nvidia-rtx-pro-4000-blackwell", 2),
    "8H100.80S.176V": ("nvidia-h100-sxm5-80gb", 8),
    "1B200.30V": ("nvidia-b200-sxm-180gb", 1),
    "8H100.80S.176V_SPOT": ("nvidia-h100-sxm5-80gb", 8),
    "1H100.80S.32V_FIN-03_500": ("nvidia-h100-sxm5-80gb", 1),
    "ice-lake-rtx-a5000_4x32v64gb": ("nvidia-rtx-a5000", 4),
    "sapphire-rapids-h100_8x64v128gb": ("nvidia-h100-sxm5-80gb", 8),
    "gpu_3x_rtx4090_96": ("nvidia-rtx-4090", 3),
    "gpu_1x_DGX_A100_us-central-2": ("nvidia-a100-pcie-40gb", 1),
    "n3-H100x8-NVLink-bigroot__CANADA-1": ("nvidia-h100-pcie-80gb", 8),
    "n3-A100x1-spot__CANADA-1": ("nvidia-a100-pcie-80gb", 1),
    "ccs-h200.sxm.8x": ("nvidia-h200-sxm-141gb", 8),
    "h100-80gb.sxm.8x": ("nvidia-h100-sxm5-80gb", 8),
    "RTX6000-Ada_8x": ("nvidia-rtx-6000-ada", 8),
    "RTXPRO6000-WK_1x": ("nvidia-rtx-pro-6000-blackwell-ws", 1),
    "lambdalabs_A100-sxm4-80GBx8": ("nvidia-a100-sxm4-80gb", 8),
    "massedcompute_A6000-plusx4": ("nvidia-rtx-a6000", 4),
    "paperspace_V100-32GB": ("nvidia-v100-pcie-32gb", 1),
    "A100_sxm4_80Gx8_668d6762247d03149a4c946f_newyork-usa-1": ("nvidia-a100-sxm4-80gb", 8),
    "H100_668d6762247d03149a4c9468_dallas-usa-1": ("nvidia-h100-pcie-80gb", 1),
    "hyperstack__8xA100_80GB__252__1920__NVLINK": ("nvidia-a100-pcie-80gb", 8),
    "datacrunch__4xH200_141GB__176__740__SPOT": ("nvidia-h200-sxm-141gb", 4),
    "4x_RTXPRO6000_112V_640G": ("nvidia-rtx-pro-6000-blackwell-server", 4),
    "8x112v952g_NVIDIA_GeForce_RTX_5090_32G_SECURE": ("nvidia-rtx-5090", 8),
    "1x-RTX_PRO_6000_WS-32-65536": ("nvidia-rtx-pro-6000-blackwell-ws", 1),
    "vcg-a100-12c-120g-80vram": ("nvidia-a100-sxm4-80gb", 1),
    "vcg-a40-96c-480g-192vram": ("nvidia-a40", 4),
    "t2-le-90": ("nvidia-v100-pcie-32gb", 2),
    "h100-1520": ("nvidia-h100-pcie-80gb", 4),
    "l40s-180": ("nvidia-l40s", 2),
    "ECS4GPU10": ("nvidia-h200-sxm-141gb", 4),
    "ECS3GPU7": ("nvidia-l40s", 4),
    "ECS1GPU": ("nvidia-quadro-rtx-6000", 1),
    "ecs.gn7i-c32g1.16xlarge": ("nvidia-a10", 2),
    "ecs.gn6v-c10g1.20xlarge": ("nvidia-v100-sxm2-16gb", 8),
    "ecs.gn6i-c4g1.xlarge": ("nvidia-t4", 1),
    "ecs.gn8v-tee-8x.48xlarge": ("nvidia-h20-96gb", 8),
    "ecs.gn8is.2xlarge": ("nvidia-l20", 1),
    "ecs.ebmgn7e.32xlarge": ("nvidia-a100-sxm4-80gb", 8),
    "ecs.ebmgn7i.32xlarge": ("nvidia-a10", 4),
    "tpu-v5p-8": ("google-tpu-v5p", 4),
    "tpu-v3-8": ("google-tpu-v3", 4),
    "TPU v6e-8": ("google-tpu-v6e", 8),
    "Standard_NC24rs_v2": ("nvidia-p100-pcie-16gb", 4),
    "V100-32Gx4": ("nvidia-v100-pcie-32gb", 4),
    "v5litepod-16": ("google-tpu-v5e", 16),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_name_states_the_accelerator_and_its_count(catalog_store: CatalogStore, name: str) -> None:
    match = catalog_store.directory().resolve_name(name)
    assert match.is_machine
    assert (match.accelerators, match.count) == ((MACHINES[name][0],), MACHINES[name][1])


@pytest.mark.parametrize("name", ["vcg-a100-6c-60g-40vram", "ecs.gn7i-c0g1.xlarge", "ecs.gn99x.4xlarge", "ECS9GPU7"])
def test_a_part_of_an_accelerator_and_an_unknown_family_are_no_machines(catalog_store: CatalogStore, name: str) -> None:
    assert not catalog_store.directory().resolve_name(name).accelerators


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
