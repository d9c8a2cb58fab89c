"""Generations of chips: the runtimes that drive them and the formats that their matrix units multiply."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.records import Generation, Runtime

RUNTIMES: Mapping[str, Runtime] = MappingProxyType(
    {
        r.name: r
        for r in (
            Runtime("cuda", "CUDA"),
            Runtime("jetpack", "CUDA on Jetson"),
            Runtime("rocm", "ROCm"),
            Runtime("xpu", "Intel XPU"),
            Runtime("gaudi", "Gaudi"),
            Runtime("neuronx", "Neuron"),
            Runtime("neuron", "first-generation Neuron"),
            Runtime("xla", "TPU"),
            Runtime("metal", "Metal"),
            Runtime("vulkan", "Vulkan"),
            Runtime("opencl", "OpenCL"),
            Runtime("cpu", "CPUs"),
            Runtime("cann", "CANN"),
            Runtime("neuware", "Cambricon Neuware"),
            Runtime("qaic", "Qualcomm Cloud AI"),
            Runtime("tt-metal", "TT-Metalium"),
            Runtime("groq", "the Groq runtime"),
            Runtime("cerebras", "the Cerebras runtime"),
            Runtime("sambanova", "SambaFlow"),
            Runtime("maia", "the Maia runtime"),
        )
    }
)

CAPABILITY = "compute capability"  # how names of CUDA generations begin
_AS_OF = "2026-11-22"
_CUDA = "NVIDIA, CUDA programming guide: arithmetic by compute capability; CUDA GPUs list"
_ROCM = "AMD, ROCm documentation: precision support by architecture"
_WIDE = ("fp32", "fp16", "int8")
_BF16 = (*_WIDE, "bf16")
_FP8 = (*_BF16, "fp8")
_FP4 = (*_FP8, "fp4", "mx")


def _cuda_generation(
    family: str,
    capability: float,
    multiplies: tuple[str, ...],
    *architectures: str,
    slugs: tuple[str, ...] = (),
    runtimes: tuple[str, ...] = ("cuda", "vulkan"),
) -> Generation:
    name = f"{CAPABILITY} {capability}"
    return Generation(family, name, runtimes, multiplies, capability, architectures, slugs, _CUDA, _AS_OF)


def _other_generation(
    family: str,
    name: str,
    runtimes: tuple[str, ...],
    multiplies: tuple[str, ...],
    *architectures: str,
    slugs: tuple[str, ...] = (),
    source: str,
) -> Generation:
    return Generation(family, name, runtimes, multiplies, None, architectures, slugs, source, _AS_OF)


# Within a family, single chips come before architectures, and the entry for the rest comes last. Compute capability
# 6.1 has no fast 16-bit arithmetic, 6.0 no INT8.
_AMPERE_80 = (
    "nvidia-a30",
    "nvidia-a100-sxm4-40gb",
    "nvidia-a100-pcie-40gb",
    "nvidia-a100-sxm4-80gb",
    "nvidia-a100-pcie-80gb",
    "nvidia-a800-sxm4-80gb",
)
GENERATIONS: tuple[Generation, ...] = (
    _cuda_generation("nvidia_pascal", 6.1, ("fp32", "int8"), slugs=("nvidia-p4",)),
    _cuda_generation("nvidia_pascal", 6.0, ("fp32", "fp16")),
    _cuda_generation("nvidia_volta", 7.0, ("fp32", "fp16")),
    _cuda_generation("nvidia_turing", 7.5, _WIDE),
    _cuda_generation("nvidia_ampere", 8.0, _BF16, slugs=_AMPERE_80),
    _cuda_generation("nvidia_ampere", 8.6, _BF16),
    _cuda_generation("nvidia_ada", 8.9, _FP8),
    _cuda_generation("nvidia_hopper", 9.0, _FP8),
    _cuda_generation("nvidia_blackwell", 10.3, _FP4, "Blackwell Ultra"),
    _cuda_generation("nvidia_blackwell", 10.0, _FP4),
    _cuda_generation("nvidia_blackwell_consumer", 12.1, _FP4, slugs=("nvidia-gb10-dgx-spark",)),
    _cuda_generation("nvidia_blackwell_consumer", 12.0, _FP4),
    # NVIDIA has not published its compute capability; 13.0 orders it after all others.
    Generation("nvidia_rubin", "Rubin", ("cuda",), _FP4, 13.0, source="NVIDIA, Rubin announcement", as_of=_AS_OF),
    _cuda_generation("jetson", 11.0, _FP4, "Blackwell", runtimes=("jetpack",)),
    _cuda_generation("jetson", 8.7, _BF16, runtimes=("jetpack",)),
    _other_generation("amd_cdna1", "gfx908", ("rocm",), _BF16, source=_ROCM),
    _other_generation("amd_cdna2", "gfx90a", ("rocm",), _BF16, source=_ROCM),
    _other_generation("amd_cdna3", "gfx942", ("rocm",), _FP8, source=_ROCM),
    _other_generation("amd_cdna4", "gfx950", ("rocm",), _FP4, source=_ROCM),
    _other_generation("amd_cdna5", "CDNA5", ("rocm",), _FP4, source="AMD, MI400 announcement"),
    _other_generation("amd_rdna", "gfx1201", ("rocm", "vulkan"), _FP8, "RDNA4", source=_ROCM),
    _other_generation("amd_rdna", "gfx1151", ("rocm", "vulkan"), _BF16, "RDNA3.5", source=_ROCM),
    _other_generation("amd_rdna", "gfx1100", ("rocm", "vulkan"), _BF16, source=_ROCM),
    _other_generation(
        "intel_gpu", "Xe-HPC", ("xpu",), _BF16, "Xe-HPC", source="Intel, oneAPI GPU optimization guide: XMX types"
    ),
    _other_generation(
        "intel_gpu", "Xe-HPG", ("xpu", "vulkan"), _BF16, "Xe-HPG", source="Intel, oneAPI GPU optimization guide"
    ),
    _other_generation(
        "intel_gpu", "Xe2", ("xpu", "vulkan"), _BF16, source="Intel, oneAPI GPU optimization guide: XMX types"
    ),
    _other_generation(
        "gaudi1", "Gaudi", ("gaudi",), ("fp32", "bf16"), source="Intel, Gaudi architecture documentation"
    ),
    _other_generation(
        "gaudi", "Gaudi 3", ("gaudi",), ("fp32", "bf16", "fp16", "fp8"), "Gaudi3", source="Intel, Gaudi 3 paper"
    ),
    _other_generation(
        "gaudi", "Gaudi 2", ("gaudi",), ("fp32", "bf16", "fp16", "fp8"), source="Intel, Gaudi 2 data sheet"
    ),
    _other_generation(
        "tpu", "TPU v7", ("xla",), ("fp32", "bf16", "fp8"), "TPU v7", source="Google Cloud, TPU v7 (Ironwood) page"
    ),
    # Older TPUs with an FP8 rate in the catalog convert FP8 to BF16: the rate is that of BF16.
    _other_generation(
        "tpu", "TPU v6e", ("xla",), ("fp32", "bf16", "int8"), "TPU v6e", source="Google Cloud, TPU v6e page"
    ),
    _other_generation(
        "tpu", "TPU v5p", ("xla",), ("fp32", "bf16", "int8"), "TPU v5p", source="Google Cloud, TPU v5p page"
    ),
    _other_generation(
        "tpu", "TPU v5e", ("xla",), ("fp32", "bf16", "int8"), "TPU v5e", source="Google Cloud, TPU v5e page"
    ),
    _other_generation(
        "tpu", "TPU v4", ("xla",), ("fp32", "bf16", "int8"), "TPU v4", source="Google Cloud, TPU v4 page"
    ),
    _other_generation(
        "tpu", "TPU v2 and v3", ("xla",), ("fp32", "bf16"), source="Google Cloud, TPU system architecture"
    ),
    _other_generation(
        "trainium", "Trainium 1", ("neuronx",), _FP8, "NeuronCore-v2", source="AWS Neuron, NeuronCore-v2 page"
    ),
    _other_generation(
        "trainium", "Trainium 2", ("neuronx",), _FP8, "NeuronCore-v3", source="AWS Neuron, NeuronCore-v3 page"
    ),
    _other_generation("trainium", "Trainium 3", ("neuronx",), _FP4, source="AWS Neuron, NeuronCore-v4 page"),
    _other_generation("inferentia2", "Inferentia 2", ("neuronx",), _FP8, source="AWS Neuron, NeuronCore-v2 page"),
    _other_generation("inferentia1", "Inferentia 1", ("neuron",), _BF16, source="AWS Neuron, NeuronCore-v1 page"),
    _other_generation(
        "apple", "Apple silicon", ("metal",), ("fp32", "fp16", "bf16"), source="Apple, Metal feature set tables"
    ),
    _other_generation(
        "x86_cpu",
        "AMX",
        ("cpu",),
        _BF16,
        "Sapphire Rapids",
        "Granite Rapids",
        source="Intel, instruction set extensions reference: AMX-BF16, AMX-INT8",
    ),
    _other_generation(
        "x86_cpu", "AVX-512 BF16 and VNNI", ("cpu",), _BF16, source="AMD, Zen 4 software optimization guide"
    ),
    _other_generation("arm_cpu", "Armv8.6 BF16 and I8MM", ("cpu",), _BF16, source="Arm, architecture reference manual"),
    _other_generation(
        "ascend", "Ascend 950", ("cann",), _FP4, slugs=("huawei-ascend-950dt",), source="Huawei, Ascend roadmap"
    ),
    _other_generation(
        "ascend",
        "Ascend 310P",
        ("cann",),
        _WIDE,
        slugs=("huawei-ascend-310p-300i-duo",),
        source="Huawei, Atlas 300I Duo page",
    ),
    _other_generation("ascend", "Ascend 910", ("cann",), _BF16, source="Huawei, Atlas A2 pages"),
    _other_generation("cambricon", "MLU", ("neuware",), _BF16, source="Cambricon, MLU370 page"),
    _other_generation(
        "qualcomm", "Cloud AI 100", ("qaic",), ("fp16", "int8"), source="Qualcomm, Cloud AI 100 data sheet"
    ),
    _other_generation(
        "qualcomm_adreno", "Adreno", ("opencl", "vulkan"), ("fp32", "fp16"), source="llama.cpp, docs/backend/OPENCL"
    ),
    _other_generation("groq", "LPU", ("groq",), ("fp16", "int8"), source="Groq, LPU page"),
    _other_generation("cerebras", "WSE-3", ("cerebras",), ("fp32", "fp16", "bf16"), source="Cerebras, CS-3 page"),
    _other_generation("sambanova", "SN40L", ("sambanova",), ("fp32", "bf16", "int8"), source="SambaNova, SN40L paper"),
    _other_generation(
        "tenstorrent", "Tensix", ("tt-metal",), ("bf16", "fp16", "fp8"), source="Tenstorrent, TT-Metalium docs"
    ),
    _other_generation("maia", "Maia 100", ("maia",), ("bf16", "fp16"), source="Microsoft, Maia 100 at Hot Chips 2024"),
)


def generation_of(accelerator: Accelerator) -> Generation:
    """Generation of a chip. A chip without a record multiplies the formats that its data sheet gives a rate for.

    Check: two chips of one family.
        >>> [generation_of(catalogued(slug)).name for slug in ("nvidia-a100-sxm4-80gb", "nvidia-a10")]
        ['compute capability 8.0', 'compute capability 8.6']
    """
    known = _listed_generation(accelerator.family, accelerator.architecture, accelerator.slug)
    if known is not None:
        return known
    rates = tuple(sorted(accelerator.flops_per_s))
    return Generation(accelerator.family, accelerator.family.replace("_", " "), (), rates)


@cache
def _listed_generation(family: str, architecture: str, slug: str) -> Generation | None:
    for g in GENERATIONS:
        anything = not g.slugs and not g.architectures
        if g.family == family and (anything or slug in g.slugs or architecture in g.architectures):
            return g
    return None
