"""The best of an episode: knowing its luck (`optimum`), or the tools' reliability only (`expected_optimum`)."""
