"""Devices, links and engines, and the share of a device's rates that an engine achieves.

Rates are dense rates from data sheets; a format without a rate does not run. Coefficients give the achieved share:

    value = base * product of factors      for shares: value / (1 - value) = base / (1 - base) * product of factors

Bases come from kernel tables, data sheets and mechanisms (launches per layer), never from the results that the
factors are fitted to (`calibration/`). A factor belongs to an engine, its generation (vLLM before 0.8), its
runtime (captured graphs, eager, compiled, ggml), a vendor, a family, a format class, or a pair of these. A stack
without measurements gets the product of the factors that it shares with measured stacks. Factors multiply the odds
of a share, so that no fitted value exceeds a device's rate.
"""
