"""Reads a Hugging Face `config.json` into exact counts, block by block.

A configuration is only counted when its `model_type` is one this file knows the blocks of; an
unknown one is refused with what is missing, never taken for a Llama. Sources: the model
definitions of the transformers library; every count is compared with the catalogue's registry
in tests. Symbols are those of `model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.errors import UnreadableConfiguration
from app.sizing.families import ENCODER_FAMILIES, FAMILIES, WINDOW_PATTERN, Config, Family, Reader
from app.sizing.model import AttentionGroup, ModelArchitecture, ModelKind, ParameterParts

# Nested files: the text model's keys sit one level down.
_TEXT_KEYS = ("text_config", "llm_config", "language_config")
_NESTED_TYPES = {"gemma3": "gemma3_text", "llama4": "llama4_text"}


def _text_config(config: Config) -> Config:
    """The text model's own keys, wherever the file keeps them."""
    for key in _TEXT_KEYS:
        inner = config.get(key)
        if isinstance(inner, Mapping):
            outer = {"tie_word_embeddings", "quantization_config"} & config.keys()
            return {**inner, **{k: config[k] for k in outer if k not in inner}}
    if config.get("model_type") == "dbrx":
        return {**config.get("ffn_config", {}), **config.get("attn_config", {}), **config}
    return config


def native_format(config: Config) -> str:
    """The format the weights are published in: the quantisation stated, or 16 bit."""
    quantisation = config.get("quantization_config") or {}
    method = quantisation.get("quant_method") if isinstance(quantisation, Mapping) else None
    if method == "fp8":
        return "fp8"
    if method == "mxfp4":
        return "mxfp4"
    if method == "awq":
        return "int4-awq"
    if method == "gptq" and quantisation.get("bits", 4) == 4:
        return "int4-gptq"
    return "bf16"


def _windowed_layers(reader: Reader, family: str, layers: int) -> tuple[int, float | None]:
    """How many layers keep only a window, and the window in tokens."""
    window = reader.find("sliding_window")
    if family == "llama4_text":
        chunk = reader.integer("attention_chunk_size", 8192)
        return layers - layers // 4, float(chunk)
    if family == "gpt_neo":
        return layers // 2, float(reader.integer("window_size", 256))
    if not isinstance(window, int) or window <= 0:
        return 0, None
    types = reader.find("layer_types")
    if isinstance(types, list) and len(types) == layers:
        return sum(t == "sliding_attention" for t in types), float(window)
    if family == "qwen2" and not reader.find("use_sliding_window"):
        return 0, None
    pattern = reader.find("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return sum(pattern[i % len(pattern)] == "L" for i in range(layers)), float(window)
    every = pattern if isinstance(pattern, int) and pattern > 0 else WINDOW_PATTERN.get(family)
    if family == "gpt_oss":
        return (layers + 1) // 2, float(window)
    if every is not None:
        return layers - layers // every, float(window)
    return (layers, float(window)) if family in ("mistral", "phi3", "starcoder2") else (0, None)


def _vision_tower(config: Config) -> int:
    """Parameters of the towers whose blocks are known here (SigLIP of Gemma 3, Llama 4)."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0
    reader = Reader(vision)
    kind = vision.get("model_type")
    h, f, layers = reader.integer("hidden_size"), reader.integer("intermediate_size"), reader.integer("num_hidden_layers")
    patch = reader.integer("patch_size")
    positions = (reader.integer("image_size") // patch) ** 2
    text = Reader(_text_config(config)).integer("hidden_size")
    block = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h
    if kind == "siglip_vision_model":
        return 3 * patch * patch * h + h + positions * h + layers * block + 2 * h + h + h * text
    if kind == "llama4_vision_model":
        out, hidden = reader.integer("vision_output_dim"), reader.integer("projector_input_dim")
        shuffled = int(h / reader.config.get("pixel_shuffle_ratio", 0.5) ** 2)
        adapter = shuffled * hidden + hidden * reader.integer("projector_output_dim")
        embeddings = h + (positions + 1) * h + 3 * patch * patch * h
        return embeddings + layers * block + 4 * h + adapter + out * text
    raise UnreadableConfiguration(
        f"The vision tower {kind!r} is not one that can be counted; accepted: siglip_vision_model, "
        "llama4_vision_model, or a configuration without vision_config.",
        key="vision_config",
    )


def read_architecture(config: Config, *, name: str) -> ModelArchitecture:
    """Counts of a model from its configuration.

    Raises UnreadableConfiguration naming the key or the model type that stands in the way.
    Check: Llama-3.1-8B has 8 030 261 248 parameters and 131 072 bytes of cache per token.
    """
    text = _text_config(config)
    outer_type = config.get("model_type")
    family = text.get("model_type", outer_type)
    if not isinstance(family, str):
        raise UnreadableConfiguration(
            "The configuration lacks 'model_type', without which its blocks are unknown. "
            f"Accepted: {', '.join(sorted({*FAMILIES, *ENCODER_FAMILIES}))}.",
            key="model_type",
        )
    family = _NESTED_TYPES.get(family, family)
    if family in ENCODER_FAMILIES:
        return _encoder(text, family, name)
    if family not in FAMILIES:
        raise UnreadableConfiguration(
            f"The model type {family[:60]!r} is not one whose blocks can be counted. "
            f"Accepted: {', '.join(sorted({*FAMILIES, *ENCODER_FAMILIES}))}.",
            key="model_type",
        )
    return _decoder(config, text, family, name)


@dataclass(slots=True)
class _Tally:
    """Running counts of one decoder, all layers."""

    attention: int = 0
    mlp: int = 0
    routed_experts: int = 0
    inactive_experts: int = 0
    shared_experts: int = 0
    router: int = 0
    recurrent: int = 0
    other: int = 0
    linear: int = 0
    matmul: float = 0.0
    state_bytes: float = 0.0
    recurrent_flops: float = 0.0

    def weights(self, part: str, elements: int, *, bias: int = 0, layers: int = 1) -> None:
        """A projection every token multiplies, and its biases."""
        setattr(self, part, getattr(self, part) + elements * layers)
        self.linear += elements * layers
        self.matmul += elements * layers
        self.other += bias * layers


def _decoder(config: Config, text: Config, family: str, name: str) -> ModelArchitecture:
    spec, reader = FAMILIES[family], Reader(text)
    h, layers, n = reader.integer("hidden_size"), reader.integer("num_hidden_layers"), reader.integer("num_attention_heads")
    if min(h, layers, n) == 0:
        raise UnreadableConfiguration("hidden_size, num_hidden_layers and num_attention_heads must be at least 1.", key="hidden_size")
    vocab = reader.integer("vocab_size")
    m = _kv_heads(reader, family, n)
    d = reader.integer("head_dim", h // n)
    if m == 0 or n % m:
        raise UnreadableConfiguration(f"{n} attention heads cannot share {m} key/value heads evenly.", key="num_key_value_heads")
    tally = _Tally()
    mixers = _schedule(reader, family, layers)
    attention_layers = sum(x == "attention" for x in mixers)
    groups = _attention(tally, reader, spec, family, h=h, n=n, m=m, d=d, layers=attention_layers)
    _recurrent(tally, reader, h=h, mixers=mixers)
    moe_layers, experts, per_token, width = _feed_forward(tally, reader, spec, family, h=h, mixers=mixers)

    norms = spec.norms
    if family == "falcon":
        norms = 2 if reader.find("new_decoder_architecture") else 1
    norm_width = h * spec.norm_vectors
    tally.other += norms * norm_width * layers + (norm_width if spec.final_norm else 0)
    if spec.embedding_norm:
        tally.other += 2 * h
    embedding = vocab * h
    if spec.positions:
        embedding += (reader.integer(spec.positions) + spec.extra_positions) * h
    tied = (
        spec.tied
        if spec.tied is not None and "tie_word_embeddings" not in text
        else bool(text.get("tie_word_embeddings", spec.tied or False))
    )
    if spec.tied is True and family.startswith("gemma"):
        tied = True
    tally.other += vocab if spec.head_bias else 0
    tower = _vision_tower(config)
    head = 0 if tied else vocab * h
    tally.matmul += vocab * h

    parts = ParameterParts(
        embedding=embedding,
        head=head,
        attention=tally.attention,
        mlp=tally.mlp,
        routed_experts=tally.routed_experts,
        shared_experts=tally.shared_experts,
        router=tally.router,
        recurrent=tally.recurrent,
        norms_and_other=tally.other,
        encoder_tower=tower,
    )
    return ModelArchitecture(
        name=name,
        kind=ModelKind.DECODER,
        family=family,
        num_layers=layers,
        hidden_size=h,
        num_heads=n,
        head_dim=d,
        mlp_width=float(width),
        vocab_size=vocab,
        parts=parts,
        linear_params=tally.linear,
        active_params=parts.total - tally.inactive_experts,
        matmul_params=tally.matmul,
        attention=groups,
        state_bytes_per_sequence=tally.state_bytes,
        recurrent_flops_per_token=tally.recurrent_flops,
        num_experts=experts,
        experts_per_token=per_token,
        moe_layers=moe_layers,
        max_context_tokens=reader.find("max_position_embeddings"),
        tied_head=tied,
        native_format=native_format(text),
        source="closed form of the configuration",
    )


def _kv_heads(reader: Reader, family: str, n: int) -> int:
    if family == "gpt_bigcode":
        return 1 if reader.find("multi_query") is not False else n
    if family == "falcon" and not reader.find("new_decoder_architecture"):
        return 1 if reader.find("multi_query") is not False else n
    return reader.integer("num_key_value_heads", n)


def _schedule(reader: Reader, family: str, layers: int) -> list[str]:
    """The mixer of each block: attention, a recurrent kind, or none (an MLP-only block)."""
    if family == "jamba":
        period, offset = reader.integer("attn_layer_period"), reader.integer("attn_layer_offset")
        return ["attention" if i % period == offset else "mamba1" for i in range(layers)]
    if family == "nemotron_h":
        pattern = reader.find("hybrid_override_pattern")
        names = {"M": "mamba2", "*": "attention", "-": "mlp"}
        if not isinstance(pattern, str) or len(pattern) != layers or set(pattern) - names.keys():
            raise UnreadableConfiguration(
                "nemotron_h needs 'hybrid_override_pattern' with one of M, * or - per layer.",
                key="hybrid_override_pattern",
            )
        return [names[c] for c in pattern]
    if family == "qwen3_next":
        types = reader.find("layer_types")
        if isinstance(types, list) and len(types) == layers:
            return ["attention" if t == "full_attention" else "gated_delta" for t in types]
        every = reader.integer("full_attention_interval", 4)
        return ["attention" if (i + 1) % every == 0 else "gated_delta" for i in range(layers)]
    return ["attention"] * layers


def _attention(
    tally: _Tally, reader: Reader, spec: Family, family: str, *, h: int, n: int, m: int, d: int, layers: int
) -> tuple[AttentionGroup, ...]:
    """Attention projections of all layers, and what they cache."""
    if layers == 0:
        return ()
    if reader.find("kv_lora_rank"):
        return _latent_attention(tally, reader, h=h, n=n, layers=layers)
    gate = 1 if family == "qwen3_next" and reader.find("attn_output_gate") is not False else 0
    bias = (n * d * (1 + gate) + 2 * m * d) * reader.flag(spec.qkv_bias)
    bias += h * reader.flag(spec.out_bias)
    if spec.qk_norm == "head" or (family == "glm4_moe" and reader.find("use_qk_norm")):
        bias += 2 * d
    elif spec.qk_norm == "full" or (family == "cohere" and reader.find("use_qk_norm")):
        bias += n * d + m * d
    if family == "gpt_oss":
        bias += n  # one learned sink per head
    tally.weights("attention", h * n * d * (1 + gate) + 2 * h * m * d + n * d * h, bias=bias, layers=layers)
    windowed, window = _windowed_layers(reader, family, layers)

    def group(count: int, limit: float | None) -> AttentionGroup:
        return AttentionGroup(
            layers=count,
            kv_elements=2.0 * m * d,
            kv_heads=m,
            prefill_macs=2.0 * n * d,
            decode_macs=2.0 * n * d,
            window_tokens=limit,
        )

    return tuple(group(c, w) for c, w in ((layers - windowed, None), (windowed, window)) if c)


def _latent_attention(tally: _Tally, reader: Reader, *, h: int, n: int, layers: int) -> tuple[AttentionGroup, ...]:
    """Multi-head latent attention: one compressed vector per token stands for all heads."""
    r, ro = reader.integer("kv_lora_rank"), reader.integer("qk_rope_head_dim")
    no, dv = reader.integer("qk_nope_head_dim"), reader.integer("v_head_dim")
    q = reader.integer("q_lora_rank", 0)
    query = h * q + q * n * (no + ro) if q else h * n * (no + ro)
    elements, cached, read = query + h * (r + ro) + r * n * (no + dv) + n * dv * h, r + ro, None
    bias = q + r
    index_heads = reader.find("index_n_heads")
    if isinstance(index_heads, int):
        index_d = reader.integer("index_head_dim")
        elements += q * index_heads * index_d + h * index_d + h * index_heads
        bias += 2 * index_d
        cached += index_d
        read = float(reader.integer("index_topk"))
    tally.weights("attention", elements, bias=bias, layers=layers)
    return (
        AttentionGroup(
            layers=layers,
            kv_elements=float(cached),
            kv_heads=1,
            prefill_macs=float(n * (no + ro) + n * dv),
            decode_macs=float(n * (r + ro) + n * r),
            read_tokens=read,
        ),
    )


def _recurrent(tally: _Tally, reader: Reader, *, h: int, mixers: list[str]) -> None:
    """Recurrent mixers: projections are matrices, the rest is small and stays 16 bit."""
    for kind in ("mamba1", "mamba2", "gated_delta"):
        count = mixers.count(kind)
        if not count:
            continue
        gates = 0  # narrow projections that quantisers leave in 16 bit
        if kind == "mamba1":
            u = h * reader.integer("mamba_expand", 2)
            state, k = reader.integer("mamba_d_state", 16), reader.integer("mamba_d_conv", 4)
            rank = reader.integer("mamba_dt_rank", -(-h // 16))
            projections = h * 2 * u + u * (rank + 2 * state) + rank * u + u * h
            small = u * k + u * reader.flag("mamba_conv_bias") + u + u * state + u + (rank + 2 * state)
            state_bytes, flops = 2 * u * k + 4 * u * state, 2 * u * k + 9 * u * state
        elif kind == "mamba2":
            heads, head = reader.integer("mamba_num_heads"), reader.integer("mamba_head_dim")
            u, state = heads * head, reader.integer("ssm_state_size")
            k = reader.integer("conv_kernel", 4)
            conv = u + 2 * reader.integer("n_groups") * state
            projections = h * (u + conv + heads) + u * h
            small = conv * k + conv * reader.flag("use_conv_bias") + 3 * heads + u
            state_bytes, flops = 2 * conv * k + 4 * u * state, 2 * conv * k + 6 * u * state
        else:
            kh, kd = reader.integer("linear_num_key_heads"), reader.integer("linear_key_head_dim")
            vh, vd = reader.integer("linear_num_value_heads"), reader.integer("linear_value_head_dim")
            k, kq, vq = reader.integer("linear_conv_kernel_dim", 4), kh * kd, vh * vd
            conv = 2 * kq + vq
            projections, gates = h * (2 * kq + 2 * vq) + vq * h, 2 * h * vh
            small = conv * k + 2 * vh + vd
            state_bytes, flops = 2 * conv * k + 4 * vh * kd * vd, 2 * conv * k + 8 * vh * kd * vd
        tally.weights("recurrent", projections, layers=count)
        tally.recurrent += gates * count
        tally.matmul += gates * count
        tally.other += small * count
        tally.state_bytes += state_bytes * count
        tally.recurrent_flops += flops * count


def _moe_layers(reader: Reader, family: str, layers: int) -> int:
    """How many layers route: all, all but the first dense ones, or every n-th."""
    if family == "jamba":
        period, offset = reader.integer("expert_layer_period"), reader.integer("expert_layer_offset")
        return sum(i % period == offset for i in range(layers))
    if family == "llama4_text":
        step = reader.integer("interleave_moe_layer_step", 1)
        return layers // step
    dense_first = reader.integer("first_k_dense_replace", 0)
    step = max(1, reader.integer("decoder_sparse_step", 1))
    only_dense = reader.find("mlp_only_layers") or []
    return sum(1 for i in range(layers) if i >= dense_first and (i + 1) % step == 0 and i not in only_dense)


def _feed_forward(tally: _Tally, reader: Reader, spec: Family, family: str, *, h: int, mixers: list[str]) -> tuple[int, int, int, float]:
    """Dense and routed MLPs of all layers: (MoE layers, experts, experts per token, active width)."""
    f = reader.integer("intermediate_size", 4 * h)
    if family == "mpt":
        f = h * int(reader.find("expansion_ratio") or 4)
    slots = mixers.count("mlp") if family == "nemotron_h" else len(mixers)
    matrices = 3 if spec.gated else 2
    experts = reader.integer("num_experts", 0)
    mlp_bias = ((2 if spec.gated else 1) * f + h) * reader.flag(spec.mlp_bias)
    if experts <= 1:
        tally.weights("mlp", matrices * h * f, bias=mlp_bias, layers=slots)
        return 0, 0, 0, float(f)
    k = reader.integer("experts_per_token")
    e = reader.integer("moe_intermediate_size", f)
    routed = _moe_layers(reader, family, slots)
    dense_width = reader.integer("intermediate_size_mlp", f)
    tally.weights("mlp", 3 * h * dense_width, layers=slots - routed)
    expert_bias = 2 * e + h if family == "gpt_oss" else 0
    one = 3 * h * e
    tally.routed_experts += experts * one * routed
    tally.linear += experts * one * routed
    tally.matmul += k * one * routed
    tally.other += experts * expert_bias * routed
    tally.inactive_experts += (experts - k) * (one + expert_bias) * routed
    tally.router += h * experts * routed
    tally.matmul += h * experts * routed
    tally.other += experts * routed if family == "gpt_oss" else 0
    shared = reader.integer("shared_expert_intermediate_size", 0)
    shared = shared or reader.integer("n_shared_experts", 0) * e
    if family == "llama4_text":
        shared = f
    if shared:
        tally.weights("shared_experts", 3 * h * shared, layers=routed)
        if family in ("qwen2_moe", "qwen3_next"):
            tally.router += h * routed
            tally.matmul += h * routed
    return routed, experts, k, float(k * e + shared)


def _encoder(config: Config, family: str, name: str) -> ModelArchitecture:
    """BERT-like encoders with learned positions and a pooler or head; one pass, no cache."""
    reader = Reader(config)
    h, layers, n = reader.integer("hidden_size"), reader.integer("num_hidden_layers"), reader.integer("num_attention_heads")
    f, vocab = reader.integer("intermediate_size"), reader.integer("vocab_size")
    positions = reader.integer("max_position_embeddings", 512)
    kinds = reader.integer("type_vocab_size", 2 if family == "bert" else 1)
    attention, mlp = 4 * h * h * layers, 2 * h * f * layers
    classes = str((config.get("architectures") or [""])[0])
    head_extra = 0
    if classes.endswith("ForMaskedLM"):
        head_extra = 2 * h + vocab
    elif classes.endswith("ForSequenceClassification"):
        head_extra = (h + 1) * reader.integer("num_labels", 1)
    parts = ParameterParts(
        embedding=(vocab + positions + kinds) * h,
        attention=attention,
        mlp=mlp,
        head=h * h,
        norms_and_other=(4 * h + f + h + 4 * h) * layers + 2 * h + h + head_extra,
    )
    return ModelArchitecture(
        name=name,
        kind=ModelKind.ENCODER,
        family=family,
        num_layers=layers,
        hidden_size=h,
        num_heads=n,
        head_dim=h // n,
        mlp_width=float(f),
        vocab_size=vocab,
        parts=parts,
        linear_params=attention + mlp,
        active_params=parts.total,
        matmul_params=float(attention + mlp),
        attention=(AttentionGroup(layers=layers, kv_elements=0.0, kv_heads=n, prefill_macs=2.0 * h, decode_macs=0.0),),
        max_context_tokens=positions,
        native_format=native_format(config),
        source="closed form of the configuration",
    )


def assumed_architecture(parameters: float) -> ModelArchitecture:
    """A dense decoder of the usual proportions where only the size is known.

    Depth and width grow together (h = 128 L), 8 key/value heads of 128, 128 256 tokens; the MLP's
    width takes what is left, so that the total is the size given to within rounding.
    Check: 8 billion gives 33 layers of width 4224.
    """
    vocab, d = 128_256, 128
    layers = max(2, round((parameters / (12 * 128 * 128)) ** (1 / 3)))
    tied = parameters < 3e9
    if tied:
        vocab = 49_152
    while layers > 2 and layers * (2 * (layers * d) ** 2) + vocab * layers * d * (1 if tied else 2) > 0.8 * parameters:
        layers -= 1
    h, n = layers * d, layers
    m = max(k for k in (1, 2, 4, 8) if n % k == 0)
    fixed = vocab * h * (1 if tied else 2) + layers * (h * n * d * 2 + 2 * h * m * d + 2 * h) + h
    f = max(d, round((parameters - fixed) / (3 * h * layers)))
    config = {
        "model_type": "llama", "hidden_size": h, "num_hidden_layers": layers, "num_attention_heads": n,
        "num_key_value_heads": m, "head_dim": d, "intermediate_size": f, "vocab_size": vocab,
        "tie_word_embeddings": tied, "max_position_embeddings": 131_072,
    }  # fmt: skip
    model = read_architecture(config, name=f"{parameters / 1e9:g}B")
    text = f"only the size is known: a dense decoder of {layers} layers, width {h}, {m} key/value heads and {vocab:,} tokens was assumed"
    return replace(model, assumed=(text,), shape_is_assumed=True, source="shape assumed from the size")
