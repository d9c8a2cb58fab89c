"""What a device, a link and an engine is, and what an engine reaches of a device's rates.

Rates are those of data sheets, dense; a missing one does not run. What is reached of them are coefficients:

    value = base * product of factors      of shares: value / (1 - value) = base / (1 - base) * product of factors

Bases come from kernel tables, data sheets and mechanism (launches per layer), none from the results that factors are
fitted to (`app/calibration/`). A factor belongs to an engine, its generation (of vLLM before 0.8), its runtime
(captured graphs, eager, compiled, ggml), a vendor, a family, a format class, or a pair of these; a stack that nobody
measured is the product of what it shares with measured ones. Shares move by their odds, so that nothing fitted can be
faster than a device's rate.
"""
