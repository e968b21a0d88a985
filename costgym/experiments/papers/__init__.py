"""The papers' experiments, a file each: protocol, agents, play, table, claims.

`reproduce` runs one of them; the other modules are what several share.
"""
