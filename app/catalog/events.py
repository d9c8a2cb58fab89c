"""Names of the events that other systems can be notified of."""

STORED, STATUS = "recommendation.stored", "recommendation.status"
EVENTS = (STORED, STATUS)
