"""A tiny random GGUF is served and measured with the files as they are handed over."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from app.export.handoff.targets import build_files
from app.observed.benchmarks import read_measured_runs
from tests.export.handoff.stored import served
from tests.export.handoff.test_trained import save_tiny_model

pytestmark = pytest.mark.torch
PROMPTS = 60
SHAPE: dict[str, Any] = {
    "accelerators": 1,
    "tensor": 1,
    "model": "./tiny",
    "tokenizer": "./tiny",
    "gguf_file": "./tiny.gguf",
    "sequences": 4,
    "batched": 64,
    "window": 2048,
    "served": 2048,
    "prompt": 16,
    "input": 16,
    "output": 8,
    "rate": 20.0,
    "prompts": PROMPTS,
}
HIDDEN, WIDTH, LAYERS, HEADS, KV_HEADS = 64, 128, 2, 4, 2
SPECIAL, BYTES = ["<unk>", "<s>", "</s>"], [f"<0x{value:02X}>" for value in range(256)]
LETTERS = list("▁abcdefghijklmnopqrstuvwxyz0123456789.,!?")


def save_tiny_gguf(path: Path) -> None:
    """A random Llama of two layers that answers with letters: rows of all other tokens in the output are zero."""
    gguf = pytest.importorskip("gguf")
    random = np.random.default_rng(0)
    tokens, unwritten = [*SPECIAL, *BYTES, *LETTERS], len(SPECIAL) + len(BYTES)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(8192)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(place) for place in range(len(tokens))])
    writer.add_token_types([2, 3, 3, *[6] * len(BYTES), *[1] * len(LETTERS)])  # unknown, control, byte, normal
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    output = random.standard_normal((len(tokens), HIDDEN)).astype(np.float32)
    output[:unwritten] = 0
    embedding = random.standard_normal((len(tokens), HIDDEN)).astype(np.float32)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    keys = HIDDEN * KV_HEADS // HEADS
    matrices = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (keys, HIDDEN), "attn_v": (keys, HIDDEN)}
    matrices |= {"attn_output": (HIDDEN, HIDDEN), "ffn_gate": (WIDTH, HIDDEN), "ffn_up": (WIDTH, HIDDEN)}
    matrices |= {"ffn_down": (HIDDEN, WIDTH)}
    for layer in range(LAYERS):
        for name, shape in matrices.items():
            weights = 0.02 * random.standard_normal(shape)
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights.astype(np.float32))
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Folder with the files and the model, while serve.sh runs there."""
    installed = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    server = shutil.which("llama-server", path=installed) or shutil.which("llama-server-vulkan", path=installed)
    if server is None:
        pytest.skip("needs llama-server")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "llama-server").symlink_to(server)
    save_tiny_gguf(tmp_path / "tiny.gguf")
    for file in build_files(served("llama.cpp", **SHAPE), "shell", None).files:
        (tmp_path / file.name).write_text(file.text)
    with (tmp_path / "serve.log").open("w") as log:
        # The first of those that share a machine.
        around = {**os.environ, "REPLICA": "0", "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        process = subprocess.Popen(["bash", "serve.sh"], cwd=tmp_path, env=around, stdout=log, stderr=log)
        try:
            yield tmp_path
        finally:
            process.terminate()
            process.wait(30)


def wait_until_healthy(url: str, log: Path) -> None:
    """Waits a minute for a server to answer."""
    for _ in range(60):
        try:
            if httpx2.get(f"{url}/health").status_code == httpx2.codes.OK:
                return
        except httpx2.TransportError:
            pass
        time.sleep(1)
    raise TimeoutError(log.read_text()[-2000:])


def test_a_tiny_model_is_served_and_measured(folder: Path) -> None:
    url = "http://localhost:8080"
    wait_until_healthy(url, folder / "serve.log")
    body = {"model": "./tiny", "prompt": "hello world", "max_tokens": 8}
    answer = httpx2.post(f"{url}/v1/completions", json=body).json()
    assert answer["usage"]["completion_tokens"] == 8
    if not (Path(sys.executable).parent / "guidellm").exists():
        pytest.skip("needs GuideLLM")
    save_tiny_model(folder / "tiny")
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "benchmark.sh", "guidellm"], cwd=folder, env={**os.environ, "PATH": tools}, check=True, timeout=300
    )
    (run,) = read_measured_runs((folder / "benchmarks.json").read_text())
    assert (run.format, run.completed, run.asked_per_s) == ("guidellm", PROMPTS, 20.0)
    assert run.ttft_s is not None and run.output_tokens is not None
    assert "Benchmarking complete" in (folder / "benchmark.log").read_text()
