"""Write the card of a named dataset: what it holds, how it was made, and how to read it."""

from ....simulators.version import __version__
from .catalogue import Recipe


def card(recipe: Recipe, episodes: int, seed: int) -> str:
    """The card of a dataset in Markdown; Minari's `description`."""
    family = recipe.family
    command = f"costgym datasets build {recipe.dataset_id}"
    command += f" --episodes {episodes}" if episodes != family.episodes else ""
    command += f" --seed {seed}" if seed else ""
    shape = (
        "one float32 vector, the environment's arrays one after the other" if recipe.flat else "a dictionary of float32 arrays"
    )
    lines = [
        f"**World.** {family.summary}",
        f"**Behaviour.** {recipe.summary}",
        f"**Evaluation.** `recover_environment(eval_env=True)` is `{family.env_id}` on the split `test`, whose tasks are "
        "not in the data. Normalised scores are 0 for random actions and 100 for the expert there.",
        f"**Observations.** {shape[0].upper()}{shape[1:]}.",
        "**Alignment.** `infos['costs'][t]`, `infos['log_probabilities'][t]` and `infos['action_mask'][t]` belong to "
        "`actions[t]` and `rewards[t]`. Terminations are the ends of tasks; truncations those at the step limit.",
        f"**Made by** `{command}` with costgym {__version__}; the same command makes the same bytes.",
    ]
    if family.cost_limit is not None:
        lines.insert(
            1, f"**Constraint.** A mean price of at most {family.cost_limit:g} credits an episode; `costs` are prices."
        )
    return "\n\n".join(lines)
