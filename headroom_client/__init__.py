"""A client of the Headroom service: typed answers, retries, pages of lists. Needs httpx2 alone."""

from headroom_client.client import Headroom
from headroom_client.problems import HeadroomError, NotReached

__all__ = ["Headroom", "HeadroomError", "NotReached"]
