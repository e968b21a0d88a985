"""Train language models in the marketplace by group-relative policy optimisation (GRPO) with TRL."""
