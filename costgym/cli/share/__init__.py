"""Commands that hand results and the world to others."""
