"""Published serving results, as cases of the fit."""
