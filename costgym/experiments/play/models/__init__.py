"""Real models and their servers: what a server needs, what it did wrong, and models from Python packages."""
