"""Native vector environments: N episodes a step, equal to the scalar environments bit for bit."""
