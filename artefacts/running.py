"""Runs the shell and Python blocks of a document against a service, in the order of the document."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from multiprocessing.connection import Client, Listener
from pathlib import Path

from starlette.types import ASGIApp
from typer.testing import CliRunner

from app.cli import cli
from app.server.listening import ListenerConfig, Server
from artefacts.blocks import PYTHON, Block
from artefacts.service import ROOT

SHOWN = "localhost:8000"
BETWEEN = "\x1e"
LONGEST_S = 120
# Executable `headroom` for the blocks of a document: it forwards commands to this process, which saves start-up time.
COMMAND = """#!{python} -SE
import os, sys
from multiprocessing.connection import Client
with Client({address!r}) as line:
    given = sys.stdin.buffer.read() if "-" in sys.argv else b""
    line.send((sys.argv[1:], os.getcwd(), given))
    said, complained, status = line.recv()
sys.stdout.buffer.write(said)
sys.stderr.buffer.write(complained)
sys.exit(status)
"""


class NotAsShownError(Exception):
    """A block of a document ended with an error."""


@contextlib.contextmanager
def serve_app(app: ASGIApp) -> Iterator[str]:
    """Serves a started application on a free port and yields its URL."""
    server = Server(ListenerConfig(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.address[1]
    url = f"http://127.0.0.1:{port}"
    try:
        # Wait until the catalog is loaded, so that its log lines do not mix with the output of commands.
        urllib.request.urlopen(f"{url}/readyz", timeout=LONGEST_S).close()
        yield url
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def answer_commands(folder: Path, url: str) -> Iterator[None]:
    """Provides `headroom` as an executable in the folder; this process runs its commands against the service."""
    address = str(folder / "line")
    executable = folder / "headroom"
    executable.write_text(COMMAND.format(python=sys.executable, address=address))
    executable.chmod(0o755)

    def answer_lines() -> None:
        with Listener(address) as listener:
            ready.set()
            while True:
                with listener.accept() as line:
                    asked = line.recv()
                    if asked is None:
                        return
                    words, where, given = asked
                    with contextlib.chdir(where):
                        result = CliRunner().invoke(
                            cli, words, input=given, env={"HEADROOM_URL": url, "COLUMNS": "118"}
                        )
                    line.send((result.stdout_bytes, result.stderr_bytes, int(result.exit_code)))

    ready = threading.Event()
    thread = threading.Thread(target=answer_lines)
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        with Client(address) as line:
            line.send(None)
        thread.join()


def shell_script(fenced: list[Block]) -> str:
    """One shell script of all runnable blocks, which marks the start of each output."""
    parts = ["set -euo pipefail\n"]
    for block in fenced:
        parts.append("printf '\\036'\n")
        if block.is_runnable and block.language == PYTHON:
            parts.append(f"python3 - <<'END_OF_PYTHON'\n{block.text}END_OF_PYTHON\n")
        elif block.is_runnable:
            parts.append(block.text)
    return "".join(parts)


def run_blocks(fenced: list[Block], url: str) -> list[str]:
    """Standard output of each block of a document; empty for blocks that do not run."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        (home / "bin").mkdir()
        (home / "work").mkdir()
        (home / "work" / "tests").symlink_to(ROOT / "tests")
        (home / ".curlrc").write_text("fail-with-body\n")  # an error status makes curl fail
        here = url.removeprefix("http://")
        environment = {
            **os.environ,
            "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": made,
        }
        with answer_commands(home / "bin", url):
            ended = subprocess.run(
                ["bash", "-c", shell_script(fenced).replace(SHOWN, here)],
                cwd=home / "work",
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
    # Documents have no trailing blanks, which `fold` leaves.
    plain = re.sub(r" +$", "", ended.stdout.replace(here, SHOWN), flags=re.MULTILINE)
    said = plain.split(BETWEEN)[1:]
    if ended.returncode:
        raise NotAsShownError(f"{fenced[len(said) - 1].text}ended with {ended.returncode}:\n{said[-1]}{ended.stderr}")
    return said
