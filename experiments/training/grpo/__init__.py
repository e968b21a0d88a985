"""Group-relative policy optimisation of language models in the marketplace, with TRL."""
