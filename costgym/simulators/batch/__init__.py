"""N episodes of one world at once, equal to the event-driven world call by call."""
