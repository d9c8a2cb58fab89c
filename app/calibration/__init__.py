"""Fits the coefficients of speed to published measurements and reports the error; never runs inside a request."""
