"""Names of the events that other systems can be notified of."""

STORED, STATUS, STANDING = "recommendation.stored", "recommendation.status", "recommendation.standing"
EVENTS = (STORED, STATUS, STANDING)
