"""The two OpenCATP environments: plans written token by token, and plans made by calling tools."""
