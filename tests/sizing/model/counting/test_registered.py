"""The shape that is assumed where only a size is known."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.counting.registered import HIDDEN_SIZE_LAW, LAYER_LAW, RULE_ERRORS, assumed_architecture
from tests.sizing.model.counting.bases import ENTRIES


def test_the_shape_rule_is_what_the_catalogue_says() -> None:
    shapes: dict[tuple[int, int, int], ModelArchitecture] = {}
    for entry in ENTRIES.values():
        if entry["modality"] != "text" or entry["moe"] or entry["release_date"] < "2023-07":
            continue
        model = read_architecture(entry["config"], name=entry["hf_id"])
        latent = any(g.decode_macs > g.prefill_macs for g in model.attention)
        plain = (
            model.kind is ModelKind.DECODER
            and model.encoder is None
            and model.attention
            and not model.state_bytes_per_sequence
        )
        if plain and not latent and model.total_params >= 1e8:
            shapes.setdefault((model.total_params, model.num_layers, model.hidden_size), model)
    models = list(shapes.values())
    size = np.log([m.total_params for m in models])
    for (scale, exponent), attribute in ((LAYER_LAW, "num_layers"), (HIDDEN_SIZE_LAW, "hidden_size")):
        fitted = np.polyval(np.polyfit(size, np.log([getattr(m, attribute) for m in models]), 1), size)
        # another model or two may move the fit a little; the rule is fitted again where it is a tenth off
        assert np.abs(np.exp(fitted) / (scale * np.exp(exponent * size)) - 1).max() < 0.1
    assumed = [assumed_architecture(float(m.total_params)) for m in models]
    pairs = list(zip(assumed, models, strict=True))
    errors = {
        "num_hidden_layers": [abs(a.num_layers / m.num_layers - 1) for a, m in pairs],
        "hidden_size": [abs(a.hidden_size / m.hidden_size - 1) for a, m in pairs],
        "kv_cache_bytes_per_token": [
            abs(a.kv_cache_bytes_per_token() / m.kv_cache_bytes_per_token() - 1) for a, m in pairs
        ],
    }
    for name, (median, ninetieth) in RULE_ERRORS.items():
        assert np.median(errors[name]) == pytest.approx(median, abs=0.03)
        assert np.quantile(errors[name], 0.9) == pytest.approx(ninetieth, abs=0.1)
