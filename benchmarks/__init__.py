"""Load, speed and fault-injection tests of the service."""
