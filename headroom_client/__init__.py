"""Client of the Headroom service: typed answers, retries and pagination. Its only dependency is httpx2."""

from headroom_client.client import Headroom
from headroom_client.problems import HeadroomError, NotReached

__all__ = ["Headroom", "HeadroomError", "NotReached"]
