"""Fits the speed coefficients to published measurements and reports the prediction error; never runs inside a request.

There are four fitting problems of one kind (`fit.py`): serving, training in tokens, training in samples, and training
memory. A prior draws each factor to 1; its width states how far the factor is known to vary, so a few results move a
factor little. The fit minimizes the pseudo-Huber loss of log(predicted / measured) by Levenberg-Marquardt, through the
formulas that answer requests. An under-prediction of memory counts 1.5 times. Figures better than an ideal device are
dropped. Results that are excluded from the fit are listed with their reason.

Every figure is also predicted by a fit without its source. `GET /accuracy`, `headroom accuracy` and docs/accuracy.md
report these errors first (`app/sizing/accuracy.py`). `make accuracy` fails if they grow by more than a tenth. The
spreads are fitted to them (`spreads.py`): for each quantity, the quantiles of how much worse results were than their
prediction. Each error is divided by a scale. The scale grows with the distance to the nearest result of another source,
with few other sources for the runtime on the family, and without kernel tables of the manufacturer
(`app/sizing/uncertainty.py`). The terms of the scale minimize the interval score (Gneiting and Raftery 2007) of sources
left out in turn; the score penalizes width and every result outside.

Each published result gets the interval and the guaranteed value of spreads that never saw its source. The report calls
the share of results inside "in interval" and the share that met the guaranteed value "kept". `back_test.py` sizes
hardware for every result at every confidence level. The factors choose the layout that a published training row leaves
open, so the fit is repeated until the factors no longer change.
"""
