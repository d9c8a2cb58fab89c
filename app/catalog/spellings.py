"""Spellings of hardware and providers that people, drivers and consoles use, in addition to the catalog's slugs and
names.

Device names of drivers were read from vllm-project/vllm@50feac9 (tuning files are named by device), ROCm/vllm pull
request 359 (market and product names of amd-smi) and nvidia-smi listings in issues, November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Words that do not distinguish accelerators.
NOISE_WORDS: frozenset[str] = frozenset(
    word
    for line in (
        "gpu gpus card cards accelerator chip edition tensor core graphics corporation corp inc generation processor",
        "device w with podslice slice of advanced micro devices ati series",
    )
    for word in line.split()
)
# Words that make a different model, by vendor. A model with such a word matches only names that contain it.
MODIFIERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"nvidia": frozenset(("ti", "super")), "apple": frozenset(("pro", "max", "ultra"))}
)
# Generic words for every accelerator of a vendor.
VENDOR_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "nvidia": "nvidia",
        "amd": "amd",
        "intel": "intel",
        "google": "google cloud tpu",
        "aws": "aws amazon",
        "apple": "apple silicon macbook mac mini studio",
        "huawei": "huawei ascend atlas npu",
        "qualcomm": "qualcomm cloud ai 100",
    }
)
# Slug prefixes, and additional words for the accelerators with that prefix.
EXTRA_WORDS: tuple[tuple[str, str], ...] = (
    ("nvidia-p4", "tesla"),
    ("nvidia-p100", "tesla hbm2"),
    ("nvidia-v100", "tesla volta hbm2"),
    ("nvidia-v100-sxm2-32gb", "sxm3"),
    ("nvidia-t4", "tesla"),
    ("nvidia-a100", "ampere hgx tesla"),
    ("nvidia-a100-sxm4-40gb", "hbm2"),
    ("nvidia-a100-sxm4-80gb", "hbm2e"),
    ("nvidia-a100-pcie-80gb", "hbm2e"),
    ("nvidia-h100", "hopper"),
    ("nvidia-h100-sxm5-80gb", "hbm3 hgx"),
    ("nvidia-h100-pcie-80gb", "hbm2e"),
    ("nvidia-h100-nvl-94gb", "hbm3"),
    ("nvidia-h200", "hopper hbm3e"),
    ("nvidia-h200-sxm-141gb", "sxm5 hgx"),
    ("nvidia-h20-", "hopper hbm3"),
    ("nvidia-gh200", "grace hopper superchip"),
    ("nvidia-gh200-96gb", "hbm3 480gb"),
    ("nvidia-gh200-144gb", "hbm3e"),
    ("nvidia-l4", "ada lovelace"),
    ("nvidia-b100", "blackwell 192gb hbm3e"),
    ("nvidia-b200", "blackwell 183gb 192gb hbm3e sxm6 hgx"),
    ("nvidia-b300", "blackwell ultra 288gb hbm3e sxm6 ac hgx"),
    ("nvidia-gb200", "grace blackwell superchip 192gb hbm3e sxm6"),
    ("nvidia-gb300", "grace blackwell ultra superchip 288gb hbm3e sxm6"),
    ("nvidia-rubin", "vera 288gb hbm4"),
    ("nvidia-quadro-rtx", "turing"),
    ("nvidia-rtx-2", "geforce"),
    ("nvidia-rtx-3", "geforce"),
    ("nvidia-rtx-4", "geforce"),
    ("nvidia-rtx-5", "geforce"),
    ("nvidia-rtx-a", "quadro ampere"),
    ("nvidia-rtx-pro-6000-blackwell-ws", "workstation 6000pro"),
    ("nvidia-rtx-pro-6000-blackwell-maxq", "workstation max q 6000pro"),
    ("nvidia-rtx-pro-6000-blackwell-server", "se bse 6000pro"),
    ("nvidia-jetson-orin", "super developer kit"),
    ("nvidia-jetson-agx", "developer kit"),
    ("nvidia-jetson-thor", "agx developer kit"),
    ("nvidia-gb10", "grace blackwell superchip 128gb"),
    ("nvidia-grace-cpu", "superchip"),
    ("amd-mi", "instinct arcturus gl xl hbm"),
    ("amd-mi300a", "mi300 apu"),
    ("amd-mi300x", "mi300"),
    ("amd-mi325x", "mi325"),
    ("amd-mi350", "mi350"),
    ("amd-mi355x", "mi355"),
    ("amd-mi455x", "mi455"),
    ("amd-r", "radeon navi"),
    ("amd-ryzen-ai-max-395", "strix halo radeon 8060s gfx1151 plus 128gb"),
    ("intel-gaudi", "habana labs gaudi hpu oam"),
    ("intel-gaudi-hl205", "hl205"),
    ("intel-gaudi2", "hl225"),
    ("intel-gaudi3", "hl325 hl325l"),
    ("intel-max-1550", "data center ponte vecchio pvc"),
    ("intel-xeon", "amx"),
    ("intel-xeon-8480plus", "8480 plus sapphire rapids spr"),
    ("intel-xeon-6980p", "granite rapids gnr 6"),
    ("amd-epyc-9654", "genoa"),
    ("amd-epyc-9754", "bergamo"),
    ("amd-epyc-9965", "turin"),
    ("google-tpu-v5e", "v5 lite"),
    ("google-tpu-v5p", "v5"),
    ("google-tpu-v6e", "v6 trillium"),
    ("google-tpu-v7", "v7x 7x ironwood"),
    ("aws-inferentia", "inferentia"),
    ("aws-inferentia1", "inf1"),
    ("aws-inferentia2", "inf2"),
    ("aws-trainium", "trainium"),
    ("aws-trainium1", "trn1"),
    ("aws-trainium2", "trn2"),
    ("aws-trainium3", "trn3"),
    ("aws-graviton", "graviton"),
    ("huawei-ascend-910b", "910b"),
    ("huawei-ascend-310p", "310p"),
    ("cerebras", "wse cs3"),
    ("groq", "groqcard"),
    ("sambanova", "rdu"),
    ("microsoft-maia", "azure"),
)
# Complete names with one meaning, although their words match several accelerators: device names and common short names.
TITLES: Mapping[str, str] = MappingProxyType(
    {
        "NVIDIA H200": "nvidia-h200-sxm-141gb",  # the NVL card prints as "NVIDIA H200 NVL"
        "H200": "nvidia-h200-sxm-141gb",
        "H200 141GB": "nvidia-h200-sxm-141gb",
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "nvidia-rtx-pro-6000-blackwell-ws",
        "RTX PRO 6000 Workstation": "nvidia-rtx-pro-6000-blackwell-ws",
        "RTX PRO 6000 Blackwell Workstation": "nvidia-rtx-pro-6000-blackwell-ws",
        "AMD Instinct MI350 OAM": "amd-mi350x",
        "Grace Hopper": "nvidia-gh200-96gb",
        "Spark": "nvidia-gb10-dgx-spark",
    }
)
# Replacements in compacted names.
RESPELLINGS: tuple[tuple[str, str], ...] = (
    ("v5litepod", "v5e"),
    ("v5lite", "v5e"),
    ("macbookpro", "macbook"),
    ("macbookair", "macbook"),
    ("macpro", "mac"),
)
# Aliases of providers, in lower case without separators.
PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "amazon": "aws",
        "amazonwebservices": "aws",
        "ec2": "aws",
        "sagemaker": "aws-sagemaker",
        "amazonsagemaker": "aws-sagemaker",
        "google": "gcp",
        "googlecloud": "gcp",
        "googlecloudplatform": "gcp",
        "gce": "gcp",
        "microsoft": "azure",
        "microsoftazure": "azure",
        "oracle": "oci",
        "oraclecloud": "oci",
        "oraclecloudinfrastructure": "oci",
        "lambdalabs": "lambda",
        "lambdacloud": "lambda",
        "vastai": "vast",
        "ovhcloud": "ovh",
        "togetherai": "together",
        "fireworksai": "fireworks",
        "runpodio": "runpod",
        "falai": "fal",
        "datacrunch": "verda",
        "primeintellectai": "primeintellect",
    }
)
VENDORS: Mapping[str, str] = MappingProxyType(
    {
        "nvidiacorporation": "nvidia",
        "advancedmicrodevices": "amd",
        "habana": "intel",
        "habanalabs": "intel",
        "amazon": "aws",
        "amazonwebservices": "aws",
        "googlecloud": "google",
        "gcp": "google",
        "azure": "microsoft",
        "amperecomputing": "ampere",
    }
)
