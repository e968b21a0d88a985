"""Play episodes with any command: each starts it with a model's addresses, tools and a task in its environment."""
