"""Many OpenCATP plans at once: scored from their tokens, or growing on their own clocks."""
