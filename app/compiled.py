"""Prepares before the first request, and caches for later processes: the compiled simulation and the engine version."""

from __future__ import annotations

import os
import platform
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any, cast

import llvmlite
import numba
import numpy as np

from app.code_digest import CodeBase
from app.sizing.serving import simulation
from app.sizing.serving.simulation import Replica, Requests, kernel
from app.sizing.serving.simulation.record import Counts, Seconds

DEFAULT_CACHE_FOLDER = Path("~/.cache/headroom")
# The engine is everything that these functions reach: the code that turns a request into an answer.
ENGINE_ROOTS = ("app.api.answering:find_or_compute_answer", "app.api.answering:with_input_warnings")
DATA_SUFFIXES = (".csv", ".json", ".toml")

_engine_version: list[str] = []


def compile_simulation(folder: Path | None = None) -> None:
    """Makes the simulation kernel ready to run: loads cached machine code from `folder` (default: the user's cache
    folder), or compiles it now and caches it. If the folder is not writable, the kernel is compiled for this process
    only.

    The cache subfolder is named by a hash of the source text and the compiler versions, so cached code is never
    stale. Numba itself distinguishes processors.
    """
    loop, settings = cast(Any, kernel.run_events), cast(Any, numba.config)
    if loop.signatures:
        return
    cache = (DEFAULT_CACHE_FOLDER.expanduser() if folder is None else folder) / source_version()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        settings.CACHE_DIR = str(cache)
        loop.enable_caching()
    except (OSError, RuntimeError):
        settings.CACHE_DIR = ""
    simulation.simulate_replica(*smallest_inputs(), warm=0, wanted=2)


def source_version() -> str:
    """Returns a hash of the kernel's source files and of the versions of Python, NumPy, Numba and llvmlite."""
    text = sha256()
    for module in sorted(Path(kernel.__file__).parent.glob("*.py")):
        text.update(module.read_bytes())
    for tool in (numba.__version__, llvmlite.__version__, np.__version__, platform.python_version()):
        text.update(tool.encode())
    return text.hexdigest()[:16]


def smallest_inputs() -> tuple[Replica, Requests]:
    """Returns one replica and two requests: the smallest input that triggers compilation."""
    none, two = np.zeros(0), np.ones(2, np.int64)
    defaults: dict[Any, Any] = {int: 1, float: 1.0, bool: True, Seconds: np.full(8, 0.01), Counts: 0 * two}
    replica = Replica(*(defaults[kind] for kind in kernel.FIELD_TYPES[Replica]))
    return replica, Requests(none, 1, two, 2 * two, 0 * two, 0, 0.0)


def engine_version(folder: Path | None = None) -> str:
    """Digest of the code and the data files that turn a request into an answer.

    Comments, docstrings, renames and file moves leave it unchanged; a changed constant or expression does not.
    Computing it takes about two seconds, so it is cached in `folder` (default: the user's cache folder), keyed by the
    bytes of the files.
    """
    if not _engine_version:
        _engine_version.append(_cached_engine_version(DEFAULT_CACHE_FOLDER.expanduser() if folder is None else folder))
    return _engine_version[0]


def _cached_engine_version(folder: Path) -> str:
    package = Path(str(resources.files("app")))
    text, data = sha256(), sha256()
    for file in sorted(package.rglob("*.py")):
        text.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    for file in sorted(f for f in (package / "sizing").rglob("*") if f.suffix in DATA_SUFFIXES):
        data.update(file.read_bytes())
    kept = folder / f"engine-{sha256(text.digest() + data.digest()).hexdigest()[:32]}"
    try:
        return kept.read_text()
    except OSError:
        found = f"{CodeBase(package.parent).digest_from(ENGINE_ROOTS)}-{data.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = kept.with_suffix(f".{os.getpid()}")
        written.write_text(found)
        written.replace(kept)
    except OSError:
        pass
    return found
