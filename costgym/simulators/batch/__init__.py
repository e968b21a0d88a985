"""N episodes of one world at once, by the rules of one episode, compiled."""
