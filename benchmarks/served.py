"""A service under measurement: `headroom serve` with worker processes on the loopback address."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

READY_S = 60


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


class ServiceProcess:
    """A checkout served by `headroom serve` with worker processes on one database."""

    def __init__(self, name: str, tree: Path, environment: Mapping[str, str], *, workers: int) -> None:
        self.name, self.port, self.workers = name, free_port(), workers
        command = [sys.executable, "-m", "app", "serve", "--port", str(self.port), "--workers", str(workers)]
        self.process = subprocess.Popen(
            command, cwd=tree, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + READY_S
        while not self.is_ready():
            if time.monotonic() > until:
                raise RuntimeError(f"{name} did not start")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def worker_processes(self) -> list[Path]:
        """Folders of the worker processes under /proc."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                status = (path / "status").read_text()
            except OSError:
                continue
            if f"PPid:\t{self.process.pid}\n" in status:
                found.append(path)
        return found or [Path(f"/proc/{self.process.pid}")]

    def peak_mib(self) -> list[float]:
        """Peak memory of each worker process, MiB."""
        statuses = [(path / "status").read_text() for path in self.worker_processes()]
        return [int(s.split("VmHWM:")[1].split()[0]) / 1024 for s in statuses]

    def cpu_clocks(self) -> list[int]:
        """Clocks of the CPU time of each worker process, for `time.clock_gettime`; see CPUCLOCK_PID in Linux."""
        return [~int(path.name) << 3 | 2 for path in self.worker_processes()]

    def cpu_s(self) -> float:
        """CPU time of the workers so far, s."""
        return sum(map(time.clock_gettime, self.cpu_clocks()))

    def rss_mib(self) -> float:
        """Current memory of all workers, MiB."""
        statuses = [(path / "status").read_text() for path in self.worker_processes()]
        return sum(int(s.split("VmRSS:")[1].split()[0]) / 1024 for s in statuses)

    def close(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait()
