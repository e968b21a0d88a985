"""Commands about recorded episodes and logs."""
