"""Train ToolPlanner in two stages."""
