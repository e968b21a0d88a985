"""What episodes cost: forecasts, costs of logs, a gate in tests, and what a real model costs while it is played."""
