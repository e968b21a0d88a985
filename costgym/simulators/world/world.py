"""The world in time: calls that wait, start cold, run, fail and cost, on a SimPy clock.

These rules hold. `rules` states each of them once, as a function that plays one episode and, compiled, many:

1.  Time is float64 seconds from 0 at the start of an episode. What happens at the same time happens in the order of its
    causes.
2.  Gateway. A call is checked before it runs. A refusal is a typed status, takes `gateway_s`, costs no price and counts
    only in `attempts`. An action that an environment's mask forbids is refused in the same way, as `forbidden` where nothing
    else is wrong with it, and ends nothing.
3.  Rate limit and quota. A tool admits `rate_limit` calls per sliding window and `quota` per episode; past it the call is
    refused.
4.  Slots. A tool runs `concurrency` calls at once; the others wait in submission order. Waiting costs time, not money.
    The machine runs `slots` calls of all tools at once, and hands its slots out in the order of submission. Tools that share
    GPU memory also wait until theirs fits.
5.  Instances. A call takes the most recently used idle instance within `keep_alive_s`; else a cold start comes first.
6.  Duration. The tool's median at the task's size level times a factor at the call's own uniform, read from a table of 4,096
    quantiles of a lognormal, or of what the tool's profile lists in its place. A refused connection is quick; a duration over
    `timeout_s` ends then, as a timeout.
7.  Outcome. The tool's latent chain, bursts and bans decide between ok and a failure. Right arguments give the fact, wrong
    ones run, are billed, and answer with an error or with nothing. A silent fault (partial, corrupt, drifted) looks like an
    answer, without the fact in its words. A call without arguments of its own, of a tool that serves several needs, is for
    the first of them whose fact is missing and can be had when the call is made, else for the first.
8.  Price is fixed when the call starts and charged when it ends: flat per executed call, or by duration times memory.
    Failures are billed (unless `bill_failures` is off); refusals are not. The end of the episode cuts off what is in flight: a
    call that runs costs its flat fee in full and, under FaaS, the elapsed part; one that still waits or loads has not been
    executed and costs nothing but, with `bill_cold_start`, the seconds that it has loaded. A cancelled call is billed alike.
    It gives back its slot and, if it had loaded, its instance at once.
9.  Thinking takes `ttft_s + output tokens / tokens_per_s`, or the seconds that were measured where the world takes those,
    and charges tokens and their price.
10. Waiting goes to the next completion or visible event.
11. Budgets. `refuse` (strict): what cannot be afforded at its quoted price, beside what is already running, is refused.
    `terminate`: the episode ends the moment a limit is passed. `record`: nothing is enforced, as in BTP's protocol, which
    scores runs afterwards. Seconds cannot be refused in advance, so they end the episode under `refuse` too.
12. Finish grades the answer, strictly and as a lenient judge would, by the facts that it states in any accepted form. Facts
    that only serve to find others, and optional ones, need not be stated. An answer with more stray values than facts asked
    for is a dump, and states nothing.
13. Writes. A call of a tool that writes takes effect when it ends well; where it ends ambiguously (`status.AMBIGUOUS`: a
    time-out, a lost connection, a server's error, a garbled answer), it does with the tool's chance `happens`, by the luck of
    the call's content. The status does not tell. A repeat with the same idempotency key has no second effect. Tools see an
    entity from `settles_s` after the end of the first call that made it. A check tells how many effects are seen; an undo takes
    back one that is seen, and else answers with no data. A wanted state counts as known once a call has told of it. Calls that
    are cut off take no effect. The grade looks at the final state first: every wanted effect once, and no other.
14. Sessions (`sessions`). The queries of a session share clock, ledger, instances, rate windows and quotas. Regimes of tools
    and their prices change between queries by their own draws, never by what the agent did. Tools of a provider share its
    outages. A right answer to what the present query asks for passes it, and every right answer to the query that a call was
    made for is remembered; a remembered fact is right as long as it lives.
"""

from dataclasses import dataclass, replace
from typing import Any

from costgym.simulators.draws import DrawSource
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.world.data import WorldData
from costgym.simulators.world.episode import Episode
from costgym.simulators.world.open_episode import OpenEpisode


@dataclass(frozen=True)
class World(WorldData):
    """A world; makes episodes."""

    def changed(self, **parts: Any) -> "World":
        """The same world with other parts. It looks everything up again, since candidates follow from the parts."""
        return replace(self, **parts, _slots={}, _notices={}, _rules={}, _source=DrawSource())

    def episode(
        self, task: int, seed: int = 0, budget: Budget | None = None, enforcement: Enforcement = "terminate"
    ) -> Episode:
        """Begin a task on a fresh clock. The same arguments give the same episode in every process."""
        kind = Episode if self.retriever is None else OpenEpisode
        return kind(self, task, seed, budget or Budget(), enforcement)
