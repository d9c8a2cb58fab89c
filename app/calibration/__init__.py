"""Fits the coefficients of speed to published measurements and reports the error; never runs inside a request.

Published results of serving, of training in tokens and in samples, and of training's memory are four problems of one
kind (`fit.py`): each factor is drawn to 1 by a prior whose width says how far its level is known to vary, so that thin
data moves it little. The fit minimises the pseudo-Huber loss of log(predicted / measured) by Levenberg-Marquardt,
through the very formulas that answer a request; an under-prediction of memory counts three times. Figures better than
an ideal device are dropped; rows set aside are listed with their reason.

Every figure is also predicted by a fit that never saw its source. Those errors are what `GET /accuracy`, `headroom
accuracy` and docs/accuracy.md report first, what `make accuracy` holds a change to (a tenth), and what spreads are
fitted to (`spreads.py`): for each quantity the quantiles of how much worse results were than their prediction, each
error taken relative to a scale that grows with the distance to the nearest result of another source, with few other
sources behind the runtime on the family, and where no kernel tables of the maker's own stand behind the prediction
(`app/sizing/surroundings.py` and `app/sizing/uncertainty.py`). What the scale is made of is chosen by the interval
score (Gneiting and Raftery 2007) of sources left out in turn, which charges for width and for every result outside.
Each published result then carries the interval and the promise that spreads would have given which never saw its
source: their shares are what the report calls inside and kept, and `back_test.py` sizes for every result at every
confidence. The layout that a published training row leaves open is chosen by the factors themselves, so a fit is
repeated until its factors stay.
"""
