"""The best play of an episode, knowing its luck (`optimum`) or only the tools' reliabilities (`expected_optimum`)."""
