"""An outage from a trace: the seconds at which all tools went down, and for how long."""

TRACE = ((2.0, 3.0), (9.5, 1.5))  # begin and length, seconds


def outage(episode):
    for begin_s, lasts_s in TRACE:
        yield episode.clock.timeout(begin_s - episode.now_s)
        episode.take_down()
        yield episode.clock.timeout(lasts_s)
        episode.bring_up()
