"""Networks given as stages, against published figures and against traces of them operation by operation.
tests/reference/traced_networks.csv: one forward of training on fake tensors (torch 2.13, torchvision 0.28, timm
1.0.31; autocast to 16 bit, and 32 bit), read and written bytes of every operation, storages kept for backward;
per sample.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from app.errors import UnreadableConfiguration
from app.sizing.model.counting.convolutions import BLOCKS, NetworkCounter, Signal, count_stages
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.sample import SampleShape
from tests.sizing.model.counting.bases import counted

TRACED = list(csv.DictReader((Path("tests") / "reference" / "traced_networks.csv").read_text().splitlines()))
# Parameters (M) and multiply-adds (G) as published: papers and model cards of each.
PUBLISHED = {
    "timm/resnext101_32x4d": (44.18, 8.01),
    "nvidia/se-resnext101-32x4d": (48.96, 8.03),
    "timm/wide_resnet50_2": (68.88, 11.43),
    "google/efficientnet-b0": (5.29, 0.39),
    "google/efficientnet-b4": (19.3, 4.4),
    "timm/mobilenetv2_100": (3.50, 0.30),
    "google/efficientdet-d0": (3.9, 2.5),
    "facebook/maskrcnn-resnet50-fpn": (44.4, 277.0),
    "nvidia/jasper-10x5dr": (333.0, None),
    "nvidia/quartznet-15x5": (18.9, None),
    "nvidia/nnunet-3d": (31.2, None),
    "mlcommons/unet3d-kits19": (31.2, 477.0),
    "mlcommons/retinanet-resnext50": (37.1, None),
}


@pytest.mark.parametrize("row", TRACED, ids=lambda row: row["model"])
def test_training_equals_the_trace_operation_by_operation(row: dict[str, str]) -> None:
    model = counted(row["model"])
    assert model.sample is not None
    found = model.sample.footprint
    assert found is not None
    assert model.total_params == int(row["parameters"])
    assert found.flops / 2 == pytest.approx(float(row["multiply_adds"]), rel=0.003)
    assert found.kept_bytes == pytest.approx(float(row["kept_bytes"]), rel=0.025)
    wide = 2 * (found.kept_bytes - found.kept_wide_bytes) + found.kept_wide_bytes
    assert wide == pytest.approx(float(row["kept_fp32_bytes"]), rel=0.04)
    assert found.matrix_bytes == pytest.approx(float(row["matrix_bytes"]), rel=0.03)
    assert found.grouped_bytes == pytest.approx(float(row["grouped_bytes"]), rel=0.01, abs=1)
    assert found.elementwise_bytes == pytest.approx(float(row["elementwise_bytes"]), rel=0.04)
    assert found.operations == pytest.approx(float(row["operations"]), rel=0.06)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_multiply_adds_are_the_published_ones(name: str) -> None:
    millions, giga = PUBLISHED[name]
    model = counted(name)
    assert model.sample is not None
    assert model.total_params / 1e6 == pytest.approx(millions, rel=0.01)
    if giga is not None:
        assert model.sample.flops / 2e9 == pytest.approx(giga, rel=0.02)


def net(*stages: dict[str, Any], size: tuple[int, ...] = (32, 32), channels: int = 8) -> NetworkCounter:
    return count_stages(NetworkCounter(Signal(channels, size)), stages)


def test_a_convolution_keeps_its_input_its_norm_and_what_its_rectifier_leaves() -> None:
    found = net({"block": "conv", "out": 16, "stride": 2})
    assert found.macs == 8 * 16 * 9 * 16 * 16
    assert found.saved_elements == 8 * 32 * 32 + 2 * 16 * 16 * 16
    assert (found.matrix_elements, found.elementwise_elements) == (8 * 1024 + 16 * 256, 4 * 16 * 256)
    again = net({"block": "conv", "out": 16, "stride": 2}, {"block": "conv", "out": 16})
    assert again.saved_elements - found.saved_elements == 2 * 16 * 256  # its input is kept already


def test_a_frozen_stage_keeps_nothing_and_has_no_backward() -> None:
    found, frozen = (net({"block": "conv", "out": 16, "frozen": frozen}) for frozen in (False, True))
    assert frozen.saved_elements == 0
    assert 3 * frozen.trained_macs == found.trained_macs
    assert frozen.macs == found.macs


def test_narrow_outputs_fill_a_tile() -> None:
    assert net({"block": "conv", "out": 16}).tiled_macs == 4 * net({"block": "conv", "out": 16}).macs
    assert net({"block": "conv", "out": 128}).tiled_macs == net({"block": "conv", "out": 128}).macs


def test_a_volume_has_a_third_side_and_sound_only_one() -> None:
    stages = [{"block": "conv", "out": 4, "norm": False, "act": "none"}]
    macs = [net(*stages, size=(6,) * sides, channels=4).macs for sides in (1, 2, 3)]
    assert macs == [16 * 3 * 6, 16 * 9 * 36, 16 * 27 * 216]


def test_work_on_a_larger_picture_grows_with_it_but_for_the_head() -> None:
    model = counted("timm/resnext50_32x4d")
    assert model.law is not None
    one, four = (model.law.sample_work(SampleShape(width=side, height=side)) for side in (224, 448))
    fixed = 2 * 2048 * 1000
    assert four.flops - fixed == pytest.approx(4 * (one.flops - fixed))


@pytest.mark.parametrize(
    "config",
    [
        {"size": [32, 32], "stages": [{"block": "winograd", "out": 4}]},
        {"size": [32, 32], "stages": [{"block": "conv"}]},
        {"size": [32, 32], "stages": [{"block": "conv", "out": 7, "groups": 3}]},
        {"size": [32, 32], "stages": [{"block": "conv", "out": 8, "act": "tanh"}]},
        {"size": [32, 32], "stages": [{"block": "conv", "out": 8, "times": 10_000}]},
        {"size": [1, 2, 3, 4], "stages": [{"block": "conv", "out": 8}]},
        {"size": [16384, 16384, 16384], "stages": [{"block": "conv", "out": 4096}]},
        {"size": [32, 32], "stages": {"block": "conv"}},
        {"size": [32, 32], "stages": []},
    ],
)
def test_stages_that_describe_no_network_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(UnreadableConfiguration):
        read_architecture({"model_type": "stages", **config}, name="x")


def test_every_block_can_be_named() -> None:
    assert set(BLOCKS) == {"conv", "residual", "inverted", "fused", "separable", "pool", "enlarge", "linear"}
