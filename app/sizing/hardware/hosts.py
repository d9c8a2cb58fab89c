"""Memory bandwidth per socket of the host processors that systems name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessorGeneration:
    """A generation of processors, recognized by any of `name_patterns` in a processor name."""

    name_patterns: tuple[str, ...]
    bytes_per_s: float  # memory bandwidth of one socket with all channels populated
    source: str
    as_of: str


_INTEL, _AMD = "ARK: memory of the generation's Platinum parts", "data sheets of the generation's largest parts"

# In order: the first match applies.
GENERATIONS = (
    ProcessorGeneration(
        ("turin", "9575f", "9r45", "zen5 epyc", "9965"), 576e9, f"twelve channels of DDR5-6000; {_AMD}", "2024-10"
    ),
    ProcessorGeneration(
        ("genoa", "bergamo", "9b14", "9r14", "9v84", "9654", "9754"),
        460.8e9,
        f"twelve channels of DDR5-4800; {_AMD}",
        "2022-11",
    ),
    ProcessorGeneration(
        ("milan", "rome", "7r13", "7b13", "7v13", "74f3", "7r32", "7b12", "7v12", "7742"),
        204.8e9,
        f"eight channels of DDR4-3200; {_AMD}",
        "2021-03",
    ),
    ProcessorGeneration(("granite", "xeon 6", "6980p"), 409.6e9, f"eight channels of DDR5-6400; {_INTEL}", "2025-02"),
    ProcessorGeneration(("emerald", "5th gen", "8559c"), 358.4e9, f"eight channels of DDR5-5600; {_INTEL}", "2023-12"),
    ProcessorGeneration(
        ("sapphire", "8480", "8481", "8488", "6448y"), 307.2e9, f"eight channels of DDR5-4800; {_INTEL}", "2023-01"
    ),
    ProcessorGeneration(("8375c", "8358", "ice lake"), 204.8e9, f"eight channels of DDR4-3200; {_INTEL}", "2021-04"),
    ProcessorGeneration(
        ("cascade", "skylake", "8259cl", "8275cl", "8175m", "8167m", "8168"),
        128e9,
        f"six channels of DDR4-2666; {_INTEL}",
        "2017-07",
    ),
    ProcessorGeneration(("e5-26",), 68.3e9, f"four channels of DDR4-2133; {_INTEL}", "2014-09"),
    ProcessorGeneration(("graviton4",), 537.6e9, "its catalog row", "2024-07"),
    ProcessorGeneration(("graviton3",), 307.2e9, "its catalog row", "2022-05"),
    ProcessorGeneration(("graviton2",), 204.8e9, "eight channels of DDR4-3200; AWS", "2020-05"),
    ProcessorGeneration(
        ("threadripper pro",), 332.8e9, "eight channels of DDR5-5200; AMD's data sheet of 7000 WX", "2023-10"
    ),
    ProcessorGeneration(("threadripper",), 166.4e9, "four channels of DDR5-5200; AMD's data sheet of 7000", "2023-10"),
    ProcessorGeneration(("desktop",), 89.6e9, "two channels of DDR5-5600", "2023-10"),
)


def socket_bytes_per_s(cpu_model: str | None) -> float | None:
    """Memory bandwidth of one socket in bytes/s, from the processor name of a system; None if unknown.

    Check:
        >>> socket_bytes_per_s("2x EPYC 9575F"), socket_bytes_per_s("Arm")
        (576000000000.0, None)
    """
    name = (cpu_model or "").lower()
    return next((g.bytes_per_s for g in GENERATIONS if any(word in name for word in g.name_patterns)), None)
