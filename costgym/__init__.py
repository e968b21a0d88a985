"""costgym: a simulated tool world, priced and failing like real APIs, for cost-aware tool-using agents."""
