"""A rival tenant: now and then it holds the slot of the first tool for some seconds, and calls wait for it."""


def rival(episode):
    random = episode.random("rival")
    while True:
        yield episode.clock.timeout(random.exponential(4.0))
        episode.hold(0)
        yield episode.clock.timeout(random.uniform(1.0, 3.0))
        episode.release(0)
