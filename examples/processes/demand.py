"""A price that follows demand: each call that ends makes its tool a quarter dearer."""

from costgym.simulators.calls import WorldEvent


def demand(episode):
    while True:
        call = yield episode.next_end()
        episode.change(WorldEvent(episode.now_s, "price_change", (call.slot,), 1.25))
