"""DEER's world: an agent decides whether a query needs a tool, and whether one of the candidates fits."""
