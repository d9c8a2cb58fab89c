"""Published training results, as cases of the fit."""
