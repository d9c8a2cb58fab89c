"""Units and conversion factors. Internal values are in bytes, seconds, FLOPs, watts and US dollars."""

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
LEAST_PER_S = 1e-12  # floor of a rate that is a divisor; prices and needs at this rate exceed every limit
LEAST_WORK_PER_S = 1e-6  # slowest rate of work with a price per million, units/s
HOURS_PER_DAY = 24.0
HOURS_PER_YEAR = 8760.0
HOURS_PER_MONTH = HOURS_PER_YEAR / 12
SECONDS_PER_DAY = SECONDS_PER_HOUR * HOURS_PER_DAY
