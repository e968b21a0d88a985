"""ToolPlanner's two training stages."""
