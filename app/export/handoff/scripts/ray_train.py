"""Runs train.sh once on each machine of a Ray cluster, with its number and the address of the first machine."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=1)
def find_address() -> str:
    """Address of the machine on which the task runs."""
    return ray.util.get_node_ip_address()


@ray.remote(num_cpus=1)
def train(rank: int, address: str, folder: str, arguments: list[str]) -> int:
    """Exit status of train.sh on one machine."""
    environment = {**os.environ, "NODE_RANK": str(rank), "MASTER_ADDR": address}
    return subprocess.run(["bash", f"{folder}/train.sh", *arguments], env=environment, check=False).returncode


def main() -> None:
    """Places one task on each machine and stops with the first failure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, required=True)
    parser.add_argument("--accelerators", type=int, required=True)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    ray.init()
    bundles = [{"GPU": asked.accelerators, "CPU": 1}] * asked.machines
    group = placement_group(bundles, strategy="STRICT_SPREAD" if asked.machines > 1 else "PACK")
    ray.get(group.ready())
    places = [PlacementGroupSchedulingStrategy(group, rank) for rank in range(asked.machines)]
    address = ray.get(find_address.options(scheduling_strategy=places[0]).remote())
    folder, arguments = str(Path(__file__).parent), ["--smoke"] if asked.smoke else []
    runs = [
        train.options(scheduling_strategy=place, num_gpus=asked.accelerators).remote(rank, address, folder, arguments)
        for rank, place in enumerate(places)
    ]
    while runs:
        done, runs = ray.wait(runs)
        if status := ray.get(done[0]):
            sys.exit(status if status > 0 else 128 - status)  # a negative status is the signal that ended train.sh


if __name__ == "__main__":
    main()
