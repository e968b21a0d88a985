"""What the papers' parts need besides themselves in the one world: plans over all tools, and a simulated reader of images."""
