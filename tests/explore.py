"""make explore: the property tests on new random examples, round after round, until the time is over.

Each round has a seed of its own, which a failure prints with its example. Keep such an example as an explicit one
(`@example(...)`) of the property that it broke.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time


def explore(minutes: float) -> int:
    """Run rounds for that many minutes; the number of rounds with a failure."""
    end = time.monotonic() + 60 * minutes
    rounds = failed = 0
    while (left := end - time.monotonic()) > 0:
        seed = secrets.randbelow(2**32)
        command = [
            "pytest",
            "-m",
            "hypothesis and not torch",
            "-n",
            "auto",
            f"--hypothesis-seed={seed}",
            "-p",
            "no:cacheprovider",
        ]
        print(f"round {rounds + 1}, seed {seed}, {left / 60:.0f} minutes left", flush=True)  # noqa: T201
        try:
            done = subprocess.run(
                [sys.executable, "-m", *command],
                check=False,
                timeout=left,
                env={**os.environ, "HEADROOM_TEST_PROFILE": "explore"},
            )
        except subprocess.TimeoutExpired:
            break
        rounds, failed = rounds + 1, failed + (done.returncode != 0)
    print(f"{rounds} whole rounds, {failed} with a failure")  # noqa: T201
    return failed


if __name__ == "__main__":
    sys.exit(min(1, explore(float(sys.argv[1]))))
