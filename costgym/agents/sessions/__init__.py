"""References for sessions: index policies with and without memory, pacing, exploration and knowledge."""
