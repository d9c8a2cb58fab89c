"""Translates names of published networks and completes rows from their sources' recipes: model, size, batch, unit.

Batch sizes are from the sources' own benchmark configurations (DeepLearningExamples 729963dd: configs.yml of
PyTorch/Classification/ConvNets, and scripts and README files of the other networks), read 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from app.sizing.model.sample import SampleShape
from calibration.case import NotCompared, parse_number

# Published names that differ from those of the model registry.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "3D U-Net (KiTS19)": "mlcommons/unet3d-kits19",
        "BAAI/Aquila-7B": "huggyllama/llama-7b",
        "Baichaun 7B": "huggyllama/llama-7b",
        "InternLM 65B": "huggyllama/llama-65b",
        "Jasper 10x5": "nvidia/jasper-10x5dr",
        "LLaMA 33B": "huggyllama/llama-30b",
        "Mask R-CNN R50-FPN": "facebook/maskrcnn-resnet50-fpn",
        "QuartzNet 15x5": "nvidia/quartznet-15x5",
        "Qwen/Qwen3-30B-A3B-Base": "Qwen/Qwen3-30B-A3B",
        "Qwen/Qwen3-8B-Base": "Qwen/Qwen3-8B",
        "RetinaNet ResNeXt50": "mlcommons/retinanet-resnext50",
        "SSD300 v1.1 ResNet-50": "nvidia/ssd300-resnet50",
        "bigscience/T0_3B": "google-t5/t5-3b",
        "bigscience/mt0-xxl": "google/mt5-xxl",
        "codellama/CodeLlama-34b-Instruct-hf": "codellama/CodeLlama-34b-hf",
        "nnU-Net 2D": "nvidia/nnunet-2d",
        "nnU-Net 3D": "nvidia/nnunet-3d",
        "pinkmanlove/llama-33b-hf": "huggyllama/llama-30b",
        "pinkmanlove/llama-65b-hf": "huggyllama/llama-65b",
    }
)

# MLPerf networks whose logs list every framework in the containers; their trainers split no layers.
_OF_CONTAINERS = (
    "3D U-Net (KiTS19)",
    "Mask R-CNN R50-FPN",
    "RetinaNet ResNeXt50",
    "resnet50 v1.5",
    "stabilityai/stable-diffusion-2-base",
)

# Batch per accelerator by network and framework: (16 bit on A100, 32 bit on A100, 16 bit on V100, 32 bit on V100).
_BATCHES: Mapping[tuple[str, str], tuple[int, int, int, int]] = MappingProxyType(
    {
        ("resnet50 v1.5", "PyTorch"): (256, 256, 256, 112),
        ("resnet50 v1.5 (MXNet)", "MXNet"): (512, 512, 192, 96),
        ("resnet50 v1.5 (Paddle)", "PaddlePaddle"): (256, 256, 256, 256),
        ("resnext101-32x4d", "PyTorch"): (128, 128, 128, 64),
        ("se-resnext101-32x4d", "PyTorch"): (128, 128, 112, 64),
        ("efficientnet-b0", "PyTorch"): (256, 256, 128, 64),
        ("efficientnet-widese-b0", "PyTorch"): (256, 256, 128, 64),
        ("efficientnet-b4", "PyTorch"): (128, 64, 32, 16),
        ("efficientnet-widese-b4", "PyTorch"): (128, 64, 32, 16),
        ("efficientnet-b0", "TensorFlow 2"): (1024, 512, 512, 256),
        ("efficientnet-b4", "TensorFlow 2"): (160, 80, 64, 32),
        ("efficientnetv2-s", "TensorFlow 2"): (460, 230, 128, 64),
        ("efficientdet-d0", "PyTorch"): (150, 80, 60, 30),
    }
)
# Networks whose benchmark configurations double the batch on a V100 of 32 GB.
_TWICE_ON_32_GB = ("efficientnet-b0", "efficientnet-widese-b0", "efficientnet-b4", "efficientnet-widese-b4")
# Image side in pixels where a source trains on another size than the model's default.
_SIDES: Mapping[tuple[str, str], int] = MappingProxyType({("efficientnetv2-s", "TensorFlow 2"): 300})
# Units per sample for rates that are not in samples: encoder positions of 30 s of speech.
_UNITS: Mapping[str, float] = MappingProxyType({"facebook/wav2vec2-base": 1499.0})
# Additional work that a source includes in its training time.
_OTHER_WORK: Mapping[str, str] = MappingProxyType(
    {
        "efficientnet-quant": "quantization is simulated in training",
        "Automatic SParsity": "weights are pruned in training",
        "FastPitch": "utterances of varying length, whose padding is not counted",
    }
)


def complete_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row completed from its source's recipe; raises NotCompared if its time includes other work.

    Check: a ResNet-50 of DeepLearningExamples on an A100 in mixed precision.
        >>> row = {"source_key": "nvidia_dle", "model": "resnet50 v1.5", "framework": "PyTorch"}
        >>> row |= {"accelerator": "nvidia-a100-sxm4-80gb", "precision": "fp16-mixed"}
        >>> complete_row(row)["micro_batch"]
        '256'
    """
    for words, why in _OTHER_WORK.items():
        if words in row["model"] or words in (row.get("notes") or ""):
            raise NotCompared(f"no rate of training alone: {why}")
    found = {**row, "model": NAMES.get(row["model"], row["model"])}
    if row["source_key"].startswith("mlperf") and row["model"] in _OF_CONTAINERS:
        found["framework"] = "PyTorch"
    batch = _documented_batch(row)
    if batch is not None and not row.get("micro_batch") and not row.get("global_batch"):
        found["micro_batch"] = str(batch)
    rate = parse_number(row.get("samples_s_total"))
    if row["model"] in _UNITS and row["source_key"] == "nvidia_dle" and rate is not None:
        found["samples_s_total"] = str(rate / _UNITS[row["model"]])
    return found


def _documented_batch(row: Mapping[str, Any]) -> int | None:
    sizes = _BATCHES.get((row["model"], row.get("framework") or ""))
    if sizes is None or row["source_key"] != "nvidia_dle":
        return None
    volta, wide = "v100" in row["accelerator"], row.get("precision") in ("fp32", "tf32")
    twice = volta and "32gb" in row["accelerator"] and row["model"] in _TWICE_ON_32_GB
    return sizes[2 * volta + wide] * (2 if twice and row["framework"] == "PyTorch" else 1)


def sample_shape(row: Mapping[str, Any]) -> SampleShape:
    """The image size of a row, from the row or its source."""
    said = re.search(r"image (\d+)px", row.get("notes") or "")
    side = int(said[1]) if said else _SIDES.get((row["model"], row.get("framework") or ""))
    return SampleShape(width=side, height=side)


def kernels_of(row: Mapping[str, Any]) -> str:
    """How the kernels between convolutions are built: "fused" or "eager".

    MLPerf's submissions and NVIDIA's MXNet and Paddle examples fuse norm, activation and sum. The others use the
    kernels of their framework.
    """
    fused = row["source_key"].startswith("mlperf") or row.get("framework") in ("MXNet", "PaddlePaddle")
    return "fused" if fused else "eager"
