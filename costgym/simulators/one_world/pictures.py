"""Pictures by their handles, and what OpenCATP's tools make of them, looked up in the table of really executed tools."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costgym.simulators.draws import stable_generator, stable_integer
from costgym.simulators.opencatp.profile import v100
from costgym.simulators.opencatp.scoring.evaluation import shipped_outcomes
from costgym.simulators.opencatp.scoring.table import CHAINS, chain_number
from costgym.simulators.opencatp.tasks import Output
from costgym.simulators.opencatp.tools import IMAGE, IMAGE_TOOLS, READER_OF, READER_TOOLS, SIGNATURES, TEXT_TOOLS, TOOLS
from costgym.simulators.tools import Tool, ToolProfile
from costgym.simulators.world.result_sizes import LEAST

CATEGORY, PROVIDER = "Vision", "OpenCATP"
_HANDLE = re.compile(r"img-(\d{4,5})(?:-([0-9a-f]{8}))?")
_WHAT = {
    "image_classification": "Tells the class that an image belongs to, a pattern and a thing in English, such as striped kite.",
    "image_colorization": "Colours an image that has lost its colours.",
    "object_detection": "Lists the objects in an image, in English, separated by commas.",
    "image_deblurring": "Sharpens an image that is out of focus.",
    "image_denoising": "Removes noise from an image.",
    "image_super_resolution": "Raises the resolution of an image.",
    "image_captioning": "Describes an image in one English sentence.",
    "sentiment_analysis": "Tells whether an English text is positive or negative.",
    "text_summarization": "Shortens an English text.",
    "machine_translation": "Translates an English text into German.",
}
_PARAMETERS = {
    "image": {
        "type": "string",
        "description": "Handle of an image, such as img-1234, from the request or another tool.",
    },
    "text": {"type": "string", "description": "The text, as another tool gave it."},
}


class Picture(NamedTuple):
    """An image: its scene, how it was spoilt, and the tools that have worked on it since."""

    combination: int  # index in `degrade.COMBINATIONS` of what the image suffers
    sample: int  # its scene
    chain: tuple[str, ...] = ()  # restorers, in the order in which they ran


class Pictures:
    """All images of a world. The handle of a restored image cannot be known before the tools have made it."""

    def __init__(self, seed: int) -> None:
        self._seed, self.table = seed, shipped_outcomes()
        count = 15 * self.table.samples
        # in an order of the world's own: what a handle says of the scene is nothing that is published
        self._order = stable_generator(seed, "pictures").permutation(count).tolist()
        self._index = {number: index for index, number in enumerate(self._order)}
        self._chains: dict[int, dict[str, tuple[str, ...]]] = {}  # by the number and the mark of a handle

    def handle(self, picture: Picture) -> str:
        """The handle of an image."""
        number = 1000 + self._order[picture.combination * self.table.samples + picture.sample]
        return f"img-{number}" + (f"-{self._mark(number, picture.chain)}" if picture.chain else "")

    def _chains_of(self, number: int) -> dict[str, tuple[str, ...]]:
        if number not in self._chains:
            self._chains[number] = {self._mark(number, chain): chain for chain in CHAINS[1:]}
        return self._chains[number]

    def _mark(self, number: int, chain: Sequence[str]) -> str:
        return f"{stable_integer(self._seed, 'picture', number, chain_number(chain)) % 16**8:08x}"

    def picture(self, handle: object) -> Picture | None:
        """The image of a handle; None where there is none."""
        match = _HANDLE.fullmatch(handle.strip()) if isinstance(handle, str) and len(handle) < 40 else None
        rank = None if match is None else self._index.get(int(match[1]) - 1000)
        if match is None or rank is None:
            return None
        picture = Picture(*divmod(rank, self.table.samples))
        if match[2] is None:
            return picture
        chain = self._chains_of(int(match[1])).get(match[2])
        return None if chain is None else picture._replace(chain=chain)

    def output(self, tool: str, arguments: Mapping[str, Any], of: Sequence[Picture]) -> str | None:
        """What a tool makes of its input: a handle or a text; None where it can make nothing of it.

        Only the images `of` a query are known in it. A restorer works on an image once.
        """
        if tool in TEXT_TOOLS:
            return self._rewritten(tool, arguments.get("text"))
        picture = self.picture(arguments.get("image"))
        if picture is None or picture._replace(chain=()) not in of:
            return None
        if tool in IMAGE_TOOLS:
            return None if tool in picture.chain else self.handle(picture._replace(chain=(*picture.chain, tool)))
        return self.table.text(picture.combination, picture.sample, picture.chain, (tool,))

    def _rewritten(self, tool: str, text: object) -> str | None:
        return self.table.rewritten(tool, text) if isinstance(text, str) and len(text) < 1000 else None

    def made(self, image: Picture, want: Output, alone: bool) -> Iterator[tuple[str, float]]:
        """Every text or image that answers where an output of a picture is wanted, with its score.

        As in OpenCATP, where a text is wanted `alone` that of any reader may answer.
        """
        if want.is_image:
            for chain in CHAINS[1:]:
                yield self.handle(image._replace(chain=chain)), self.table.score(*image[:2], chain, want.name)
            return
        ends: tuple[tuple[str, ...], ...] = ((), ("machine_translation",)) if want.german else ((),)
        for chain in CHAINS:
            for reader in READER_TOOLS if alone else (READER_OF[want.kind],):
                for end in ends:
                    route = (reader, *end)
                    yield self.table.text(*image[:2], chain, route), self.table.text_score(*image[:2], chain, route, want.name)


def vision_tools() -> list[Tool]:
    """OpenCATP's ten tools with their documentation. They run on the user's own machine, and never fail."""
    profile = v100()
    tools = []
    for name in TOOLS:
        cost, takes = profile.tools[name], "image" if SIGNATURES[name].takes == IMAGE else "text"
        tools.append(
            Tool(
                name,
                _WHAT[name],
                CATEGORY,
                PROVIDER,
                name,
                {
                    "type": "object",
                    "properties": {takes: _PARAMETERS[takes]},
                    "required": [takes],
                    "additionalProperties": False,
                },
                ToolProfile(
                    fee=profile.pricing.per_run,
                    latency_s=tuple(ms / 1000.0 for ms in cost.time_ms),
                    cpu_cons_mb=cost.cpu_cons_mb,
                    gpu_cons_mb=cost.gpu_cons_mb,
                    timeout_s=1e6,
                    advertised_latency_s=profile.seconds(name, 1),
                    popularity=10.0,
                    slip=0.0,
                    result_tokens=LEAST,
                ),
                name,
            )
        )
    return tools
