"""Commands that play: leaderboards, single agents, single episodes."""
