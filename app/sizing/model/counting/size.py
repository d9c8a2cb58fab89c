"""A shape from the parameter count alone: the usual proportions of the catalog's dense decoders."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import SampleWork, estimated_footprint
from app.sizing.model.tensors import ONCE, Part, Tensor
from app.sizing.words import percent

# layers = 0.1113 N^0.2561 and hidden_size = 0.3206 N^0.4110: least squares on logarithms over the
# catalog's distinct dense decoders of at least 0.1 billion parameters since July 2023; a test repeats the fit.
LAYER_LAW = (0.1113, 0.2561)
HIDDEN_SIZE_LAW = (0.3206, 0.4110)
VOCABULARY_SIZE = 128_256  # tokens, the median of those models
KV_HEADS = 8  # key/value heads of two in three of those models
# Errors of the rule over those models by quantity: median and 90th percentile of |ratio - 1|.
RULE_ERRORS = {"num_hidden_layers": (0.14, 0.36), "hidden_size": (0.11, 0.30), "kv_cache_bytes_per_token": (0.36, 1.28)}


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
