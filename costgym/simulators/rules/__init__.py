"""The rules of the world, each stated once.

A rule is a function of plain numbers and of a state that it reaches through `layout`. It is *interpreted* on the objects of
one `Episode`, whose clock is SimPy's, and *compiled* on arrays of records by `batch.compile`, for N episodes on a CPU or a GPU.
Both give the same bits, so sums are made in one order and nothing is fused.

Every rule takes what N episodes share (`tables`), the scalars of a world under a budget (`rules`, see `limits.Rules`), the
state, and the number i of an episode; for an `Episode` the first and the third are the episode itself, and i is 0.

`world` states the rules in words. They are stated here in

* `actions`: submission, refusal, cancellation, waiting, and where a limit of seconds ends an episode (1, 2, 8, 10, 11);
* `gateway`: what is refused, rate limits, quotas, budgets, slots and memory (2, 3, 4, 11);
* `calls`: start, duration, outcome, price, end and cancellation of a call (5, 6, 7, 8);
* `failures`: the latent chain of a tool, ways to fail, outages (7);
* `events`: price changes, bans and changed wishes (1, 7, 8);
* `writes`: effects and what is told of them (13);
* `grades`: what passes at the end (12);
* `sessions`: queries, memory and what moves between them (14).
"""
