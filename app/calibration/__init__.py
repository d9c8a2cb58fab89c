"""Fits the coefficients of speed to published measurements and reports the error; never runs inside a request.

Published results of serving, of training in tokens and in samples, and of training's memory are four problems of one
kind (`fit.py`): each factor is drawn to 1 by a prior whose width says how far its level is known to vary, so that thin
data moves it little. The fit minimises the pseudo-Huber loss of log(predicted / measured) by Levenberg-Marquardt,
through the very formulas that answer a request; an under-prediction of memory counts three times. Figures better than
an ideal device are dropped; rows set aside are listed with their reason.

Every figure is also predicted by a fit that never saw its source. Those errors are what `GET /accuracy`, `headroom
accuracy` and docs/accuracy.md report first, what `make accuracy` holds a change to (a tenth), and what intervals are
made of (`app/sizing/evidence.py`): the 10th and 90th percentile among results as near as the question is (the same
stack; the engine on the family; each apart; neither), widened per quantity until they hold four fifths of each source's
results when taken from the other sources. The layout that a published training row leaves open is chosen by the factors
themselves, so a fit is repeated until its factors stay.
"""
