"""Runs nginx on this machine in front of a service under measurement, with the configuration of the compose setup."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.load import ROOT
from benchmarks.served import free_port

FILE = ROOT / "deploy" / "proxy" / "nginx.conf"


@contextmanager
def run_nginx(port: int) -> Iterator[int]:
    """Yields the port of a proxy for a service; raises RuntimeError if nginx is not installed or does not start."""
    if shutil.which("nginx") is None:
        raise RuntimeError("nginx is not installed: apt-get install nginx")
    own = free_port()
    with tempfile.TemporaryDirectory(prefix="proxy") as folder:
        text = (
            FILE.read_text().replace("app:8000", f"127.0.0.1:{port}").replace("listen 8080", f"listen 127.0.0.1:{own}")
        )
        text = (
            text.replace("/tmp/", f"{folder}/")
            .replace("/dev/stdout", f"{folder}/access")
            .replace("/dev/stderr", f"{folder}/error")
        )
        file = Path(folder) / "nginx.conf"
        file.write_text(text)
        proxy = subprocess.Popen(["nginx", "-c", str(file), "-g", "daemon off;"], stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with suppress(urllib.error.URLError, OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{own}/livez", timeout=2).close()
                    break
                time.sleep(0.1)
            else:
                raise RuntimeError("nginx did not start")
            yield own
        finally:
            proxy.terminate()
            proxy.wait()
