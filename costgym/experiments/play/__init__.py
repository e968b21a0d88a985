"""Play episodes, record what happened, measure it, and replay it."""
