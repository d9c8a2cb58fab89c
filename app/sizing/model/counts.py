"""Further counts of a model that `/inspect` shows."""

from __future__ import annotations

from collections.abc import Mapping

from app.sizing.model.architecture import SAMPLE_NOTE_PREFIX, ModelArchitecture, Targets
from app.sizing.model.figures import FIGURES

EXAMPLE_CONTEXTS = (1024, 8192, 32_768, 131_072)
LORA_TARGET_NAMES = ("q_v", "attention", "all-linear")
LOGIT_BYTES = 4.0  # sampling reads float32 logits


def example_contexts(model: ModelArchitecture) -> list[int]:
    """Example context lengths up to the model's longest. If the longest is below all examples, it is the only one."""
    longest = model.max_context_tokens or int(FIGURES.unstated_context_tokens)
    return [c for c in EXAMPLE_CONTEXTS if c <= longest] or [longest]


def matrix_flops_per_token(model: ModelArchitecture) -> float:
    """Matrix FLOPs of one token, output head included, attention over a context excluded.

    The count is one multiplication and one addition per element.

    Limits: norms, activations and look-ups are not included.
    Check: Llama-3.1-8B.
        >>> matrix_flops_per_token(LLAMA_8B)
        15009316864.0
    """
    return 2 * model.matmul_params


def matrix_flops_per_source_token(model: ModelArchitecture) -> float:
    """Matrix FLOPs of the encoder for one position that it reads; 0 without an encoder.

    Limits: attention between the positions is not included.
    Check: CLIP ViT-L/14 of LLaVA 1.5, twice its 302 million elements.
        >>> matrix_flops_per_source_token(registered("llava-hf/llava-1.5-7b-hf"))
        603979776.0
    """
    return 2 * model.source_matmul_params


def vocabulary_bytes(model: ModelArchitecture) -> float:
    """Bytes of the look-up tables and the output head in 16 bit. A tied head is stored once.

    Check: Llama-3.1-8B, twice 128,256 rows of 4,096.
        >>> vocabulary_bytes(LLAMA_8B) == 2 * 2 * 128_256 * 4096
        True
    """
    return 2 * (model.parts.get("embedding", 0) + model.parts.get("head", 0))


def sampled_logits_bytes(model: ModelArchitecture) -> float:
    """Bytes of the float32 logits of one sampled token.

    Limits: engines hold several copies; the engine's record states how many.
    Check: Llama-3.1-8B, half a megabyte.
        >>> sampled_logits_bytes(LLAMA_8B)
        513024.0
    """
    return LOGIT_BYTES * model.vocab_size


def lora_params_by_target(
    model: ModelArchitecture, rank: int, targets: Targets, *, magnitudes: bool = False
) -> Mapping[str, int]:
    """Trainable elements of adapters at a rank, for each named choice of matrices or for the listed matrices.

    `magnitudes` adds those of DoRA.
    """
    targets_by_name: Mapping[str, Targets] = (
        {x: x for x in LORA_TARGET_NAMES} if isinstance(targets, str) else {"chosen": targets}
    )
    return {
        name: int(model.lora_params(rank, chosen, magnitudes=magnitudes)) for name, chosen in targets_by_name.items()
    }


def describe_sample(model: ModelArchitecture) -> str:
    """A description of one sample, or its unit if the model has none."""
    unit = model.sample.unit if model.sample is not None else ""
    return next((a.removeprefix(SAMPLE_NOTE_PREFIX) for a in model.assumed if a.startswith(SAMPLE_NOTE_PREFIX)), unit)
