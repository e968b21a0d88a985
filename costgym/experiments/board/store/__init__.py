"""Store results in an SQL database."""
