"""Play random worlds and check every rule, the batch, forks, pickles and records: `costgym selftest`."""
