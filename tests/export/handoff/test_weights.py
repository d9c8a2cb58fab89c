"""Weights without a published checkpoint are made by a script that runs the engine's own tools."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.export.handoff.targets import build_handoff
from app.export.handoff.weights import LMDEPLOY, MLX_BITS, MODELOPT_FORMATS, MODIFIERS
from tests.export.handoff.emitted import check_scripts
from tests.export.handoff.stored import served

CASES = [
    *(("tensorrt-llm", form, "hf_ptq.py") for form in MODELOPT_FORMATS),
    *((engine, form, "oneshot") for engine in ("vllm", "sglang") for form in MODIFIERS),
    *(("mlx", form, "mlx_lm.convert") for form in MLX_BITS),
    ("llama.cpp", "gguf-q4_k_m", "llama-quantize"),
    ("llama.cpp", "gguf-iq2_xxs", "llama-imatrix"),
]


def converted(engine: str, form: str, **places: Any) -> dict[str, str]:
    at = f"./Model-70B-{form}"
    file = {"gguf_file": f"{at}.gguf"} if form.startswith("gguf") else {"gguf_file": None}
    maker = "Apple" if engine == "mlx" else "NVIDIA"
    made = build_handoff(served(engine, maker=maker, **{"model": at, "format": form, **file, **places}), "shell", None)
    return {**{file.name: file.text for file in made.files}, "notes": " ".join(made.notes)}


@pytest.mark.parametrize(("engine", "form", "tool"), CASES)
def test_a_script_makes_the_weights_at_the_path_that_the_server_loads(
    engine: str, form: str, tool: str, tmp_path: Path
) -> None:
    found = converted(engine, form)
    script = found["convert.sh"]
    assert tool in script
    assert "org/Model-70B" in script
    assert f'"$WEIGHTS"/Model-70B-{form}' in script and f"./Model-70B-{form}" in found["serve.sh"]
    assert "Run convert.sh once" in found["notes"]
    check_scripts(tmp_path, script)


def test_a_calibration_data_set_is_never_chosen_silently() -> None:
    for engine, form, _ in CASES:
        script = converted(engine, form)["convert.sh"]
        needs = form not in ("gguf-q4_k_m", *MLX_BITS) and not (form == "fp8" and engine in ("vllm", "sglang"))
        assert ("CALIBRATION_" in script) == needs, (engine, form)
    assert all("--calib-dataset {data}" in command for command in LMDEPLOY.values())


def test_published_weights_need_no_script() -> None:
    found = converted("llama.cpp", "gguf-q4_k_m", gguf_file=None, gguf_repository="b/M-GGUF:Q4_K_M", model="b/M-GGUF")
    assert "convert.sh" not in found
    assert "-hf b/M-GGUF:Q4_K_M" in found["serve.sh"]
    assert "-m " not in found["serve.sh"]
    assert "convert.sh" not in converted("vllm", "fp8", model="org/Model-70B-FP8")


def test_weights_without_a_known_tool_or_repository_are_the_users() -> None:
    for places in ({"format": "int8"}, {"source_model": "./inhouse-13b"}):
        found = converted("tensorrt-llm", "fp8", **places)
        assert "convert.sh" not in found
        assert "Put the weights in this format" in found["notes"]


@pytest.mark.parametrize("target", ["shell", "slurm", "docker", "docker-compose", "skypilot"])
def test_converted_weights_lie_where_the_servers_look_for_them(target: str, tmp_path: Path) -> None:
    made = build_handoff(served(model="./Model-70B-fp8", format="fp8"), target, None)
    files, elsewhere = tmp_path / "files", tmp_path / "elsewhere"
    files.mkdir()
    elsewhere.mkdir()
    for file in made.files:
        (files / file.name).write_text(file.text)
    tool = tmp_path / "python"
    tool.write_text('#!/bin/sh\nmkdir -p "$OUTPUT"\n')
    tool.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["bash", str(files / "convert.sh")], cwd=elsewhere, env=environment, check=True)
    mounted = target in ("docker", "docker-compose", "skypilot")
    assert (files / ("models/Model-70B-fp8" if mounted else "Model-70B-fp8")).is_dir()
    assert [*elsewhere.iterdir()] == []
    assert any("folder models next to" in note for note in made.notes) == mounted
    if target == "docker":
        assert '--volume "$HERE/models:/models:ro"' in made.files[0].text
