"""Write the cards of the named datasets into a folder, a Markdown file each, as a release publishes them."""

import sys
from pathlib import Path

from costgym.experiments.play.named.build import card
from costgym.experiments.play.named.catalogue import dataset_names, recipe_of

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name in dataset_names():
    recipe = recipe_of(name)
    path = folder / f"{name.removeprefix('costgym/').replace('/', '-')}.md"
    path.write_text(f"# {name}\n\n{card(recipe, recipe.family.episodes, seed=0)}\n", encoding="utf-8")
