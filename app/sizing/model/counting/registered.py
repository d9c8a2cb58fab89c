"""Counts of a registered model, from its configuration or from facts that were counted on the network itself.

Networks without a closed form here (image networks, some denoisers) have registered parameters and FLOPs that were
counted on the instantiated network. Their work on samples of other sizes follows from those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.configuration import (
    DEFAULT_DENOISER,
    DENOISERS,
    IMAGE_NETWORKS,
    IMAGE_SIDE,
    LATENT_PIXELS,
    TEXT_ENCODER_TOKENS,
    Config,
    DefaultSettings,
)
from app.sizing.model.counting.read import is_known_type, read_architecture, without_generation
from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import Footprint, Network, SampleLaw, SampleShape, SampleWork, estimated_footprint
from app.sizing.model.tensors import ONCE, Part, Per, Tensor
from app.sizing.words import percent

# layers = 0.1113 N^0.2561 and hidden_size = 0.3206 N^0.4110: least squares on logarithms over the
# catalog's distinct dense decoders of at least 0.1 billion parameters since July 2023; a test repeats the fit.
LAYER_LAW = (0.1113, 0.2561)
HIDDEN_SIZE_LAW = (0.3206, 0.4110)
VOCABULARY_SIZE = 128_256  # tokens, the median of those models
KV_HEADS = 8  # key/value heads of two in three of those models
# Errors of the rule over those models by quantity: median and 90th percentile of |ratio - 1|.
RULE_ERRORS = {"num_hidden_layers": (0.14, 0.36), "hidden_size": (0.11, 0.30), "kv_cache_bytes_per_token": (0.40, 1.31)}


def assumed_architecture(parameters: float) -> ModelArchitecture:
    """A dense decoder of the usual proportions, for a model of which only the size is known.

    Depth and width follow the power laws above. There are 8 key/value heads of 128 (64 below a width of 2,048). The
    vocabulary is 128,256 tokens but takes a fifth of the parameters at most. The head is tied below 3 billion
    parameters. The MLP takes the remaining parameters, so that the total equals the given size to within rounding.

    Source: fitted to the catalog.
    Limits: no mixtures of experts; `RULE_ERRORS` lists the errors.
    Check: 8 billion, layers and width.
        >>> model = assumed_architecture(8e9)
        >>> model.num_layers, model.hidden_size
        (38, 3712)
    """
    tied = parameters < FIGURES.tied_below_params
    layers: int = max(2, round(LAYER_LAW[0] * parameters ** LAYER_LAW[1]))
    h: int = max(256, 128 * round(HIDDEN_SIZE_LAW[0] * parameters ** HIDDEN_SIZE_LAW[1] / 128))
    d = 64 if h < FIGURES.narrow_below_width else 128
    m = KV_HEADS
    n = m * max(1, round(h / d / m))
    vocabulary = 64 * max(4, round(min(VOCABULARY_SIZE, FIGURES.max_vocabulary_share * parameters / h) / 64))

    def params_outside_mlp(depth: int) -> float:
        return vocabulary * h * (1 if tied else 2) + depth * (2 * h * n * d + 2 * h * m * d + 2 * h) + h

    while layers > 2 and params_outside_mlp(layers) > FIGURES.max_share_outside_mlp * parameters:
        layers -= 1
    f = max(d, round((parameters - params_outside_mlp(layers)) / (3 * h * layers)))
    config = {
        "model_type": "llama",
        "hidden_size": h,
        "num_hidden_layers": layers,
        "num_attention_heads": n,
        "num_key_value_heads": m,
        "head_dim": d,
        "intermediate_size": f,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
        "max_position_embeddings": int(FIGURES.unstated_context_tokens),
    }
    model = read_architecture(config, name=f"{parameters / 1e9:g}B")
    kv = RULE_ERRORS["kv_cache_bytes_per_token"]
    text = (
        f"the request gives only the size, so a dense decoder is assumed with {layers} layers, hidden size {h:,}, "
        f"{m} key/value heads of {d} and {vocabulary:,} tokens in the vocabulary. Cache memory per token may be off "
        f"by {percent(kv[0])} (median); for one model in ten the error exceeds {percent(kv[1])}"
    )
    return replace(model, assumed=(text,), shape_is_assumed=True, source="shape assumed from the size")


def sample_architecture(
    parameters: float, flops: float, activation_bytes: float | None, assumed: Assumptions
) -> ModelArchitecture:
    """A network of which only the parameters and the FLOPs of one sample are known, and optionally its activation
    bytes.
    """
    activations = activation_bytes
    if activations is None:
        activations = 2 * flops / assumed.sample_flops_per_activation
    note = "activation memory of a sample is estimated from its FLOPs"
    return ModelArchitecture(
        name=f"{parameters / 1e9:g}B on samples",
        kind=ModelKind.SAMPLES,
        family="samples",
        num_layers=1,
        hidden_size=1,
        num_heads=1,
        head_dim=1,
        mlp_width=0.0,
        vocab_size=0,
        tensors=(Tensor("network", Part.OTHER, 1, round(parameters), ONCE, quantized=True),),
        sample=SampleWork(
            flops=flops,
            moved_bytes=2 * activations,
            live_bytes=activations,
            layers=int(assumed.sample_layers),
            footprint=replace(
                estimated_footprint(flops, activations, assumed.sample_layers),
                kept_bytes=assumed.sample_kept_over_live * activations,
            ),
        ),
        assumed=(note,) if activation_bytes is None else (),
        shape_is_assumed=activation_bytes is None,
        source="figures of the request",
    )


_DENOISERS = ("unet", "transformer", "denoiser")


@dataclass(frozen=True, slots=True)
class RegisteredFacts:
    """Facts that the registry holds about a model.

    `components` are the parameters of the parts of a pipeline, by name. `footprint` counts the operations of a
    forward pass: bytes by kind, and kernels. `image_flops` is one forward pass over an image of `side` pixels, and
    `step_flops` one denoising step.
    """

    name: str
    family: str
    modality: str
    config: Config
    total_params: int
    counted_by: str
    side: int | None = None
    image_flops: float | None = None
    step_flops: float | None = None
    footprint: Mapping[str, float] | None = None  # training footprint of one sample in 16 bit, by field of `Footprint`
    components: Mapping[str, int] = field(default_factory=dict)


def registered_architecture(facts: RegisteredFacts) -> ModelArchitecture:
    """The counts of a registered model, in closed form if its blocks are known.

    Check: BERT is an encoder, Qwen a decoder.
        >>> registered("google-bert/bert-base-uncased").kind.value, registered("Qwen/Qwen3-32B").kind.value
        ('encoder', 'decoder')
    """
    if not is_known_type(facts.config):
        model = _network_from_facts(facts)
        return _with_components(model, facts.components) if facts.components else model
    model = read_architecture(facts.config, name=facts.name)
    if facts.modality == "reranker":
        model = replace(model, reranks=True)
    if facts.modality in ("embedding", "reranker") and model.kind is ModelKind.DECODER:
        return without_generation(model)
    if facts.footprint is not None and model.law is not None:
        flops = model.law.sample_work(SampleShape()).forward_flops
        model = model.with_law(replace(model.law, footprint=_registered_footprint(facts, flops)))
    if facts.components and model.law is None:
        return _with_towers(model, facts.components)
    return _with_components(model, facts.components) if facts.components else model


def _with_towers(model: ModelArchitecture, components: Mapping[str, int]) -> ModelArchitecture:
    """The language model with towers of which only the size is known. They take memory; their work is not counted."""
    towers = tuple(Tensor(name, Part.ENCODER_TOWER, 1, size, ONCE) for name, size in components.items())
    return replace(model, tensors=(*model.tensors, *towers), assumed=(*model.assumed, _size_only_note(components)))


def _size_only_note(components: Iterable[str]) -> str:
    return f"the work of {' and '.join(name.replace('_', ' ') for name in components)} is not counted, only its size"


def _with_components(model: ModelArchitecture, components: Mapping[str, int]) -> ModelArchitecture:
    """The denoiser with the text encoders and image decoder of its pipeline, which run once per sample. The work of a
    language model that writes the picture's tokens first is not counted.
    """
    other_params = sum(v for k, v in components.items() if k not in _DENOISERS)
    tensor = Tensor("text_encoders_and_image_decoder", Part.ENCODER_TOWER, 1, other_params, ONCE)
    model = replace(model, tensors=(*model.tensors, tensor))
    if "language_model" in components:
        model = replace(model, assumed=(*model.assumed, _size_only_note(("language_model",))))
    assert model.law is not None
    reads_text = sum(v for k, v in components.items() if k.startswith("text_encoder"))
    tokens = max(model.law.fixed_positions, float(TEXT_ENCODER_TOKENS))
    return model.with_law(replace(model.law, extra_flops_fixed=2.0 * reads_text * tokens))


def _denoiser_head_width(config: Config) -> Any:
    """Width of an attention head, by either name that configurations give it; None if it is not stated."""
    return config.get("attention_head_dim") or config.get("head_dim")


def _network_from_facts(facts: RegisteredFacts) -> ModelArchitecture:
    """A network that is known by its registered parameters and FLOPs."""
    config = facts.config
    family = str(config.get("model_type", facts.family))
    heads, size = config.get("num_attention_heads"), _denoiser_head_width(config)
    wide = heads * size if isinstance(heads, int) and isinstance(size, int) else 1
    model = ModelArchitecture(
        name=facts.name,
        kind=ModelKind.SAMPLES,
        family=family,
        num_layers=1,
        hidden_size=wide,
        num_heads=1,
        head_dim=wide,
        mlp_width=0.0,
        vocab_size=0,
        tensors=(Tensor("network", Part.OTHER, 1, facts.total_params, ONCE, quantized=True, per=Per.NEVER),),
        source=f"registered facts ({facts.counted_by})",
    )
    return model.with_law(
        _denoiser_law(facts, family) if facts.modality == "diffusion" else _image_network_law(facts, family)
    )


def _image_network_law(facts: RegisteredFacts, family: str) -> SampleLaw:
    """The law of an image network: FLOPs are proportional to the pixels."""
    if facts.side is None or facts.image_flops is None:
        raise ValueError(f"{facts.name}: an image network needs a registered resolution and the FLOPs of an image")
    depths = facts.config.get("depths")
    depth = sum(depths) if isinstance(depths, list) else int(FIGURES.unstated_image_layers)
    network = IMAGE_NETWORKS.get(family, Network.TRANSFORMER)
    each = 1 if network is Network.TRANSFORMER else int(FIGURES.operations_per_convolutional_block)
    return SampleLaw(
        unit="image",
        width=facts.side,
        height=facts.side,
        cell_pixels=1,
        flops_per_position=facts.image_flops / facts.side**2,
        network=network,
        layers=depth * each,
        footprint=_registered_footprint(facts, facts.image_flops),
    )


def _registered_footprint(facts: RegisteredFacts, flops: float) -> Footprint | None:
    """Training footprint of a sample of the usual size, or None if its operations were not counted."""
    if facts.footprint is None:
        return None
    return Footprint(flops=flops, **facts.footprint)


def _denoiser_law(facts: RegisteredFacts, family: str) -> SampleLaw:
    """The law of a denoising step.

    FLOPs of a UNet are proportional to the pixels. Other denoisers have matrices and attention over positions.
    """
    usual = DENOISERS.get(family, DEFAULT_DENOISER)
    side = facts.side or IMAGE_SIDE
    clip = usual.frames > 1
    law = SampleLaw(
        unit="clip" if clip else "picture",
        width=usual.width if clip else side,
        height=usual.height if clip else side,
        frames=usual.frames,
        frames_per_position=usual.frames_per_position,
        steps=usual.steps,
        guidance=usual.guidance,
        extra_flops_per_pixel=FIGURES.image_decoder_flops_per_pixel,
        network=Network.DENOISER,
    )
    if family == "unet2d_condition":
        cells = (side // LATENT_PIXELS) ** 2
        flops = facts.step_flops or 0.0
        law = replace(law, cell_pixels=LATENT_PIXELS, flops_per_position=flops / cells)
        return replace(law, layers=int(FIGURES.unet_operations), footprint=_registered_footprint(facts, flops))
    return _transformer_denoiser_law(law, usual, facts)


def _transformer_denoiser_law(law: SampleLaw, usual: DefaultSettings, facts: RegisteredFacts) -> SampleLaw:
    """The law of a step over latent positions and text tokens, with attention separate from the matrices.

    If no step was counted, a position passes attention and an MLP of four times the width: 12 times the squared
    width in all. Image and text may each have their own copy of a block.
    """
    config: Mapping[str, Any] = facts.config
    blocks = config.get("num_layers") or config.get("num_hidden_layers") or config["n_layers"]
    layers = int(blocks) + int(config.get("num_single_layers") or 0)
    wide = int(config.get("dim") or config["num_attention_heads"] * _denoiser_head_width(config))
    pairs, counted = 4.0 * wide * layers, facts.step_flops or 0.0
    cells = (law.width // usual.cell_pixels) * (law.height // usual.cell_pixels)
    positions = cells * ((law.frames - 1) // usual.frames_per_position + 1) + usual.text_tokens
    linear = (
        (counted - pairs * positions**2) / positions
        if counted
        else 2.0 * min(facts.total_params, 12 * wide * wide * layers)
    )
    return replace(
        law,
        cell_pixels=usual.cell_pixels,
        fixed_positions=float(usual.text_tokens),
        flops_per_position=max(linear, 0.0),
        flops_per_pair=pairs,
        layers=layers,
        width_of_positions=wide,
        basis="" if counted else "work per step estimated from width and depth",
    )
