"""Hashes of the weights that trained agents play with."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ...agents.checkpoints import FOLDER, checkpoints
from ...agents.registry import run_folder

LEARNT = ("sb3:", "catp:", "ift:", "rltf:", "deer:", "btp:", "toolplanner:", "sessions:", "zoo:")
"""Prefixes of the names of trained agents, before the folder of the training run or the name of one that ships."""
_WEIGH = ("config.json", "checkpoint.json", "adapter_config.json", "tokenizer.json")
"""Files, besides the weights, that determine how weights are used."""


def is_trained(agent: str) -> bool:
    """The name is that of a trained agent, whether its weights are here or not."""
    return agent.startswith(LEARNT)


def weights_of(agents: Iterable[str]) -> dict[str, str]:
    """Hash the newest checkpoint and its configuration of trained agents (`sb3:RUN`, `toolplanner:RUN`, ...), by the agent's
    name; one whose folder has no weights is left out."""
    found = {}
    for agent in agents:
        if is_trained(agent):
            folder = run_folder(agent)
            files = _weight_files(folder)
            if any(path.suffix == ".safetensors" for path in files):
                state = hashlib.blake2b(digest_size=16)
                for path in files:
                    with path.open("rb") as file:
                        content = hashlib.file_digest(file, "blake2b").digest()
                    state.update(path.relative_to(folder).as_posix().encode() + b"\0" + content)
                found[agent] = state.hexdigest()
    return found


def _weight_files(run: Path) -> list[Path]:
    newest = checkpoints(run)[-1:]
    stages = {
        path.parent.resolve() for path in run.glob("*/*") if path.name == "config.json" and (path.parent / FOLDER).is_dir()
    }
    files = []
    for path in sorted(run.rglob("*")):
        inside = FOLDER in path.relative_to(run).parts
        if not path.is_file() or any(stage in path.resolve().parents for stage in stages):
            continue  # an earlier stage of the run plays under its own name
        if path.suffix == ".safetensors":
            played = not path.name.startswith(("optimizer", "training-"))
            if played and (not inside or path.parent in newest):
                files.append(path)
        elif path.name in _WEIGH and not inside:
            files.append(path)
    return files
