"""What a submission says of itself: the options of `costgym submit pack`, and fields of its manifest."""

from pydantic import Field

from ....simulators.bounds import Settings


class About(Settings):
    """What a submission says of itself."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,79}$", description="Who submits: a team, a method.")
    contact: str = Field(min_length=1, max_length=200, description="Where questions go.")
    url: str = Field(default="", max_length=500, pattern="^(https://.*)?$", description="Where more is to be read.")
    description: str = Field(default="", max_length=4000, description="What the agents are, in a few sentences.")
    organisation: str = Field(default="", max_length=200, description="Whose work it is.")
    date: str = Field(default="", pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="Day of the run, as 2026-11-22.")
    code: str = Field(default="", max_length=500, pattern="^(https://.*)?$", description="Where the agents' code is.")
    commit: str = Field(default="", pattern="^([0-9a-f]{7,64})?$", description="Commit of the code that was run.")
    cost: str = Field(default="", max_length=200, description="What the run cost, in real money or machine hours.")
    model: str = Field(
        default="",
        max_length=200,
        exclude_if=lambda value: not value,  # manifests from before this field keep their bytes
        description="What the agents think with: a language model and its version, a policy's network, none.",
    )
