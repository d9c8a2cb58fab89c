"""Units: everything inside is bytes, seconds, FLOPs, watts and dollars."""

MIB = 2**20
GIB = 2**30
KB = 1e3
MB = 1e6
GB = 1e9
GBIT = GB / 8
TB = 1e12

TERA = 1e12
GIGA = 1e9
MEGA = 1e6

SECONDS_PER_HOUR = 3600.0
LEAST_PER_S = 1e-12  # keeps a rate of nothing from dividing by zero: its price and its need are beyond any limit
LEAST_WORK_PER_S = 1e-6  # units; of less a million is never reached
HOURS_PER_DAY = 24.0
HOURS_PER_YEAR = 8760.0
HOURS_PER_MONTH = HOURS_PER_YEAR / 12
SECONDS_PER_DAY = SECONDS_PER_HOUR * HOURS_PER_DAY
