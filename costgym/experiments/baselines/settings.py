"""Settings of a table of baselines."""

from pydantic import Field

from costgym.simulators.bounds import Amount, Count, Settings


class BaselineSettings(Settings):
    """Settings that all runs of a table share."""

    steps: Count = Field(default=81_920, description="Maximum decisions of an online run.")
    minutes: Amount | None = Field(
        default=None, description="Maximum processor minutes of an online run, without measurements; no limit by default."
    )
    points: Count = Field(default=6, description="Measurements during a run.")
    point_episodes: Count = Field(default=100, description="Test episodes of a measurement during a run.")
    episodes: Count = Field(default=400, description="Test episodes at the end.")
    cost_limit: float | None = Field(
        default=None,
        gt=0,
        description="Limit on the mean price of an episode, for constrained methods; by default the environment's.",
    )
    train_split: str | None = Field(
        default=None, description="Split of the tasks to learn from; train-large where there is one, else train."
    )
    dataset: str | None = Field(
        default=None, description="Named dataset that offline methods learn from; by default episodes of greedy and random."
    )
    recorded: Count = Field(default=2_000, description="Recorded episodes that offline methods learn from, without a dataset.")
    updates: Count = Field(default=3_000, description="Updates of an offline method.")
