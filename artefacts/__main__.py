"""`python -m artefacts [part ...] [--again]`: writes generated files; parts with a current stamp are skipped."""

from __future__ import annotations

import importlib
import sys
import time

from app.compiled import compile_simulation
from artefacts.parts import PARTS, changed_digests, write_stamp


def main(arguments: list[str]) -> int:
    wanted = [a for a in arguments if not a.startswith("-")]
    unknown = set(wanted) - {p.name for p in PARTS}
    if unknown:
        print(f"Unknown part: {', '.join(sorted(unknown))}. Parts: {', '.join(p.name for p in PARTS)}.")
        return 2
    compile_simulation()
    for part in PARTS:
        if wanted and part.name not in wanted:
            continue
        reasons = changed_digests(part)
        if not reasons and "--again" not in arguments:
            print(f"{part.name:10} current")
            continue
        print(f"{part.name:10} {', '.join(reasons) or 'requested with --again'}", flush=True)
        started = time.perf_counter()
        further = importlib.import_module(part.module).write()
        write_stamp(part, **(further or {}))
        print(f"{'':10} {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
