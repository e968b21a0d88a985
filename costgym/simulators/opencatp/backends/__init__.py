"""The vision tools that are really executed: small networks of our own, and the published models."""
