"""Settings of a measurement of the vision tools."""

from pathlib import Path
from typing import Annotated

from costgym.simulators.bounds import Count, Settings, option

Backend = Annotated[str, option("tiny (our own networks), packaged (from packages), or published (the paper's models).")]
Model = Annotated[Path | None, option("packaged: folder of a causal language model, which is the text tools.", "DIR")]
Device = Annotated[str, option("cpu or cuda.")]
Download = Annotated[bool, option("published: let transformers download weights that are missing here.", "", "--download")]


class ProfileSettings(Settings):
    """What is measured, and how."""

    name: Annotated[str, option("Name of the profile, as scenarios refer to it.")] = "here"
    backend: Backend = "tiny"
    model: Model = None
    device: Device = "cpu"
    weights: Annotated[
        Path | str | None, option("Folder of weights; by default networks of the same size with random weights.", "DIR")
    ] = None
    """Published networks without weights are built in memory, so their cold start is the time to build them."""
    download: Download = False
    memory_limit: Annotated[
        float | None, option("Maximum memory of a run; by default most of the free memory.", "MB", gt=0)
    ] = None
    levels: Annotated[tuple[int, ...], option("Size levels to measure.", "A,B,...")] = (0, 1, 2, 3)
    repeats: Annotated[Count, option("Runs per tool and level, after a warm-up.")] = 5
    scale: Annotated[bool, option("Scale missing levels from measured ones by the size of the input.", "", "--scale")] = False
    processor_time: Annotated[
        bool, option("Measure processor time on one thread, for a machine that is shared with others.", "", "--processor-time")
    ] = False
