"""`python -m benchmarks.fuzz`: coverage-guided fuzzing of everything that parses input of callers.

Each parser may reject input with the exceptions that become a problem document. Any other exception, and any input that
takes ten seconds, ends the run with status 1. Needs atheris, which no lock file lists: pip install atheris.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES, MOST_S = 65536, 10

Reader = Callable[[bytes], Any]


def input_parsers() -> dict[str, tuple[Reader, list[bytes]]]:
    """The parsers by name, each with seed inputs."""
    from app.api.body import parse_body  # noqa: PLC0415
    from app.api.routes.catalog import decode_cursor  # noqa: PLC0415
    from app.api.schemas.requests import RecommendRequest  # noqa: PLC0415
    from app.catalog.seed import model_entries  # noqa: PLC0415
    from app.observed.figures import RunContext  # noqa: PLC0415
    from app.observed.logs import read_log  # noqa: PLC0415
    from app.observed.read import read_metrics  # noqa: PLC0415
    from app.procurement.setup import read_setup  # noqa: PLC0415
    from app.sizing.model.counting.read import read_architecture  # noqa: PLC0415
    from tests.observed.logged import MEGATRON, TORCHTITAN  # noqa: PLC0415
    from tests.observed.written import vllm  # noqa: PLC0415
    from tests.procurement.buyer import setup_request  # noqa: PLC0415

    def parse_configuration(raw: bytes) -> None:
        config = json.loads(raw)
        if isinstance(config, dict):
            read_architecture(config, name="fuzzed")

    runs = RunContext(accelerators=8, tokens_per_step=4e6, sequences_per_step=512)
    configs = [json.dumps(entry["config"]).encode() for entry in model_entries()]
    return {
        "request": (
            lambda raw: parse_body(raw, RecommendRequest),
            [path.read_bytes() for path in (ROOT / "tests/api/bodies").glob("recommend-*.json")],
        ),
        "configuration": (parse_configuration, configs),
        "exposition": (lambda raw: read_metrics([(raw.decode(), 0.0)], runs), [vllm().encode()]),
        "log": (lambda raw: read_log(raw.decode(), runs), [TORCHTITAN.encode(), MEGATRON.encode()]),
        "cxml": (read_setup, [setup_request().encode()]),
        "cursor": (lambda raw: decode_cursor(raw.decode(), whole=len(raw) % 2 == 0), [b"MTI", b"cmVj"]),
    }


def run_fuzzer(name: str, folder: str, seconds: int) -> None:
    """Fuzzes one parser in this process until the time is up or an error occurs."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["app"]):
        from app.api.problems import InvalidBody, MalformedRequest  # noqa: PLC0415
        from app.errors import AppError  # noqa: PLC0415

        read, _ = input_parsers()[name]

    def run_input(raw: bytes) -> None:
        with suppress(AppError, MalformedRequest, InvalidBody, UnicodeDecodeError, json.JSONDecodeError):
            read(raw)

    limits = [f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}", f"-timeout={MOST_S}", "-verbosity=0"]
    atheris.Setup([sys.argv[0], folder, *limits, "-print_final_stats=1"], run_input)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=150, help="seconds per parser")
    parser.add_argument("--reader", help="only this parser")
    parser.add_argument("--corpus", help="fuzz in this process with this corpus folder; for internal use")
    options = parser.parse_args()
    if options.corpus:
        run_fuzzer(options.reader, options.corpus, options.seconds)
        return
    broken = False
    for name, (_, texts) in input_parsers().items():
        if options.reader not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for i, text in enumerate(texts):
                (Path(folder) / str(i)).write_bytes(text)
            given = ["--reader", name, "--corpus", folder, "--seconds", str(options.seconds)]
            command = [sys.executable, "-m", "benchmarks.fuzz", *given]
            run = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
        stats = dict(line[6:].split(":") for line in run.stderr.splitlines() if line.startswith("stat::"))
        print(f"{name}: {stats.get('number_of_executed_units', '?').strip()} inputs, status {run.returncode}")
        if run.returncode:
            broken = True
            print(run.stderr[-3000:])
    sys.exit(broken)


if __name__ == "__main__":
    main()
