"""Builds the script that converts weights for which no published checkpoint in the recommended format is known."""

from __future__ import annotations

import shlex

from app.export.handoff.option import SHELL, File, Option, ReplicaGroup, build_script

# Source of each tool's commands, with the day it was read.
MODELOPT = "examples/llm_ptq of NVIDIA Model Optimizer, read 2026-11-26"
COMPRESSOR = "examples of llm-compressor, read 2026-11-26"
# Formats and their names in the tools.
MODELOPT_FORMATS = {"fp8": "fp8", "nvfp4": "nvfp4", "int4-awq": "int4_awq"}
MODIFIERS = {
    "fp8": ("quantization", "QuantizationModifier", "FP8_DYNAMIC"),
    "int8": ("quantization", "GPTQModifier", "W8A8"),
    "int4-gptq": ("quantization", "GPTQModifier", "W4A16"),
    "int4-awq": ("awq", "AWQModifier", "W4A16_ASYM"),
    "nvfp4": ("quantization", "QuantizationModifier", "NVFP4"),
}
WITHOUT_DATA = ("fp8",)  # formats whose scales do not depend on texts
LMDEPLOY = {"fp8": "smooth_quant {source} --work-dir {path} --quant-dtype fp8 --calib-dataset {data}"} | {
    form: f"{command} {{source}} --work-dir {{path}} --w-bits 4 --w-group-size 128 --calib-dataset {{data}}"
    for form, command in (("int4-awq", "auto_awq"), ("int4-gptq", "auto_gptq"))
}
MLX_BITS = {"int4-mlx": 4, "int8-mlx": 8}
IMPORTANCE_PREFIX = "gguf-iq"  # GGUF types that need an importance matrix
CALIBRATION = ': "${CALIBRATION_DATASET:?set it to a data set with a column text, of texts like your own traffic}"'


def needs_conversion(group: ReplicaGroup) -> bool:
    """Whether the group loads weights from a path that the user fills."""
    return group.model.startswith("./") and not group.places.get("gguf_repository")


def weights_path(group: ReplicaGroup) -> str:
    read_as_gguf = str(group.places.get("format")).startswith("gguf-")
    return str(group.places["gguf_file"] if read_as_gguf else group.model)


def conversion_files(option: Option, folder: str = ".") -> tuple[File, ...]:
    """The script that makes the weights; empty if they are published, or if no tool is known that makes them.

    Parameters:
        folder: folder next to the script in which the servers look for the weights.
    """
    needed = {group.model: conversion_lines(group) for group in option.groups if needs_conversion(group)}
    lines = tuple(line for each in needed.values() for line in each)
    if not lines:
        return ()
    place = ('HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"', f'WEIGHTS="$HERE/{folder}"', 'mkdir -p "$WEIGHTS"')
    return (File("convert.sh", SHELL, build_script(option.header_lines, *place, *lines)),)


def conversion_lines(group: ReplicaGroup) -> tuple[str, ...]:
    """Lines of the conversion for the engine of a group, into the folder $WEIGHTS; empty if no tool is known, or the
    model has no repository.
    """
    source, stored = str(group.places.get("source_model") or "./"), str(group.places.get("format") or "")
    if source.startswith("./"):
        return ()
    path, model = _in_weights(group.model), shlex.quote(source)
    if stored.startswith("gguf-"):
        return _gguf_lines(model, str(group.places["gguf_file"]), stored)
    if group.software == "mlx" and stored in MLX_BITS:
        return (f"mlx_lm.convert --hf-path {model} --mlx-path {path} -q --q-bits {MLX_BITS[stored]}",)
    if group.software == "tensorrt-llm" and stored in MODELOPT_FORMATS:
        return (
            f"# Run this in the folder that {MODELOPT}, describes. It calibrates with the data set that you name.",
            CALIBRATION,
            f"python hf_ptq.py --pyt_ckpt_path {model} --qformat {MODELOPT_FORMATS[stored]} --export_path {path} \\",
            '  --dataset "$CALIBRATION_DATASET" --calib_size 512',
        )
    if group.software == "lmdeploy" and stored in LMDEPLOY:
        data = (
            ': "${CALIBRATION_DATASET:?choose wikitext2, c4, pileval, gsm8k, neuralmagic_calibration, open-platypus or '
            'openwebtext}"'
        )
        return data, "lmdeploy lite " + LMDEPLOY[stored].format(source=model, path=path, data='"$CALIBRATION_DATASET"')
    if group.software in ("vllm", "sglang") and stored in MODIFIERS:
        return _compressor_lines(model, path, stored)
    return ()


def _in_weights(path: str) -> str:
    """Path in the folder of the weights, quoted for a shell."""
    return f'"$WEIGHTS"/{shlex.quote(path.removeprefix("./"))}'


def _gguf_lines(model: str, file: str, stored: str) -> tuple[str, ...]:
    """Lines that convert and quantize weights with the tools of llama.cpp."""
    wide, kind = _in_weights(file.removesuffix(".gguf") + "-16-bit.gguf"), stored.removeprefix("gguf-").upper()
    texts = stored.startswith(IMPORTANCE_PREFIX)
    matrix = ': "${CALIBRATION_FILE:?set it to a text file like your own traffic}"'
    return (
        "# Run this in the folder of llama.cpp, with its programs on the PATH.",
        f"hf download {model} --local-dir ./source --exclude 'original/*'",  # copies in another format
        f"python convert_hf_to_gguf.py ./source --outfile {wide} --outtype auto",
        *((matrix, f'llama-imatrix -m {wide} -f "$CALIBRATION_FILE" -o imatrix.gguf') if texts else ()),
        f"llama-quantize {'--imatrix imatrix.gguf ' if texts else ''}{wide} {_in_weights(file)} {kind}",
    )


def _compressor_lines(model: str, path: str, stored: str) -> tuple[str, ...]:
    """Lines that quantize weights with llm-compressor, which vLLM and SGLang load."""
    module, modifier, scheme = MODIFIERS[stored]
    data = (
        ""
        if stored in WITHOUT_DATA
        else ', dataset=os.environ["CALIBRATION_DATASET"], num_calibration_samples=512, max_seq_length=2048'
    )
    return (
        f"# Install llmcompressor first. The commands follow the {COMPRESSOR}.",
        *(() if stored in WITHOUT_DATA else (CALIBRATION,)),
        f"MODEL={model} OUTPUT={path} python - <<'EOF'",
        "import os",
        "from llmcompressor import oneshot",
        f"from llmcompressor.modifiers.{module} import {modifier}",
        'ignore = ["re:.*lm_head", "re:.*mlp.gate$", "re:.*router", "re:.*vision.*"]',
        f'recipe = {modifier}(targets="Linear", scheme="{scheme}", ignore=ignore)',
        f'oneshot(model=os.environ["MODEL"], recipe=recipe, output_dir=os.environ["OUTPUT"]{data})',
        "EOF",
    )


def weights_notes(option: Option) -> tuple[str, ...]:
    """Notes about weights that the user makes."""
    return tuple(dict.fromkeys(_weights_note(group) for group in option.groups if needs_conversion(group)))


def _weights_note(group: ReplicaGroup) -> str:
    form, path = str(group.places.get("format") or "the recommended format").removeprefix("gguf-"), weights_path(group)
    if conversion_lines(group):
        return f"No checkpoint in {form} is known. Run convert.sh once before the first start: it makes one for {path}."
    return f"No checkpoint in {form} is known. Put the weights in this format at the path {path}."
