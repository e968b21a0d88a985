"""The queries of the one world, their answers, and what its tools answer.

Queries about APIs are the marketplace's own, and those for one look-up are worded as DEER's are. A query about an image is a
task of OpenCATP on one of its scenes: what it needs are the cheapest calls whose outputs, stated as they came, are good enough,
of all that there are. An agent may get there by any other way: outputs are judged by what they are.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from costgym.simulators.decision.conversation import OPENER_SHARE, arithmetic, reword, tool_query
from costgym.simulators.errors import ConfigError
from costgym.simulators.grading import read_answer, states
from costgym.simulators.marketplace.answers import GeneratedAnswers
from costgym.simulators.marketplace.entities import Kind
from costgym.simulators.marketplace.facts import Database
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.marketplace.tasks import NEEDS, SIZE_LEVELS, LazyTaskSet, Luck
from costgym.simulators.marketplace.vocabulary import Capability
from costgym.simulators.one_world.kinds import BOTH, FACTS, KINDS, NO_TOOL, SEARCH
from costgym.simulators.one_world.pictures import Picture, Pictures, vision_tools
from costgym.simulators.opencatp.profile import v100
from costgym.simulators.opencatp.scenes.language import KINDS as THINGS
from costgym.simulators.opencatp.scenes.language import OBJECTS, TEXTURES, label, object_list
from costgym.simulators.opencatp.scoring.evaluation import sample_level, split_samples
from costgym.simulators.opencatp.scoring.table import CHAINS
from costgym.simulators.opencatp.tasks import OpenCATPTask, Output, tasks
from costgym.simulators.opencatp.tools import IMAGE_TOOLS, READER_TOOLS, SIGNATURES, TOOLS
from costgym.simulators.status import Status
from costgym.simulators.tasks import Need, Task, normalise
from costgym.simulators.tools import Catalog, Tool
from costgym.simulators.world.episode import Episode

if TYPE_CHECKING:
    from costgym.simulators.marketplace.tasks import TaskWriter

NOTHING = "(nothing)"  # stands for an empty text, which no answer can state
SUBJECTS = ("topic", "product", "hobby", "theme", "joke_topic")  # kinds of arguments that may be what an image shows
LABELS = tuple(label(thing, texture) for texture in TEXTURES for thing in THINGS)
_TRIES = 1_000  # draws of a scene before a query about it is given up
_DOING = {
    "image_colorization": "in colour",
    "image_deblurring": "sharpened",
    "image_denoising": "without noise",
    "image_super_resolution": "in high resolution",
}


Way = tuple[tuple[str, ...], tuple[str, ...]]
"""A way to an output: restorers in their order, then the reader and what rewrites its text; without a reader to an image."""
Chosen = tuple[Way, ...]  # a way to each wanted output


class PictureQuery(NamedTuple):
    """What a query asks of an image: a task of OpenCATP, and the image."""

    task: OpenCATPTask
    picture: Picture


def one_world_market(
    apis: Marketplace, counts: Mapping[str, int], seed: int, kinds: Mapping[str, float], vision: bool, success_score: float
) -> Marketplace:
    """The one world's tools, tasks and answers.

    Args:
        apis: The marketplace of the APIs.
        counts: Number of queries in each split.
        seed: Of the world.
        kinds: Weights of the kinds of queries.
        vision: OpenCATP's tools are on offer.
        success_score: Score from which an output of a vision tool answers a query.
    """
    assert isinstance(apis.tasks, LazyTaskSet) and isinstance(apis.answers, GeneratedAnswers)
    catalog = Catalog([*apis.catalog, *vision_tools()], "one-world") if vision else apis.catalog
    answers = OneWorldAnswers(apis.answers, Pictures(seed))
    writer = QueryWriter(apis.tasks.writer, answers, kinds, vision, success_score)
    return Marketplace(catalog, LazyTaskSet(writer, counts), answers)  # type: ignore[arg-type]


class ShownDatabase(Database):
    """A database that knows the classes of what images show as subjects too, behind those that it has."""

    def __init__(self, market: Database) -> None:
        super().__init__(market.seed, market.kinds, market.shares)
        self.fact = market.fact  # type: ignore[method-assign]  # a version of the world writes facts in its own way
        self._numbers = market.numbers

    def numbers(self, capability: Capability, arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
        numbers = self._numbers(capability, arguments)
        subject = None if numbers is not None else subject_of(capability)
        shown = None if subject is None else _shown(arguments.get(subject.name))
        if subject is None or shown is None:
            return numbers
        others = self._numbers(capability, {**arguments, subject.name: subject.value(0, self.seed)})
        index = capability.parameters.index(subject)
        return None if others is None else (*others[:index], subject.size + shown, *others[index + 1 :])


def subject_of(capability: Capability) -> Kind | None:
    """The argument of a capability that may be what an image shows, if it has one and answers with a fact of its own."""
    kinds = (kind for kind in capability.parameters if kind.name in SUBJECTS and not capability.gives)
    return next(kinds, None)


def _shown(value: object) -> int | None:
    """The number of a class that images show."""
    text = normalise(value) if isinstance(value, str) and len(value) < 80 else ""
    return LABELS.index(text) if text in LABELS else None


class OneWorldAnswers(GeneratedAnswers):
    """The answers of APIs and of vision tools."""

    def __init__(self, market: GeneratedAnswers, pictures: Pictures) -> None:
        super().__init__(ShownDatabase(market.database), market.capabilities)
        self.pictures = pictures
        self.queries: dict[int, PictureQuery] = {}  # by the task's number

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        if tool.name not in SIGNATURES:
            return super().answer(tool, arguments, task)
        query = self.queries.get(task.number)
        made = self.pictures.output(tool.name, arguments, () if query is None else (query.picture,))
        return None if made is None else json.dumps({SIGNATURES[tool.name].gives: made}, ensure_ascii=False)

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        return "{}" if tool.name in SIGNATURES else super().irrelevant(tool, arguments, task, luck)

    def _values(self, capability: Capability, numbers: tuple[int, ...]) -> dict[str, str | int]:
        values: dict[str, str | int] = {}
        for kind, number in zip(capability.parameters, numbers, strict=True):
            shown = kind.name in SUBJECTS and number >= kind.size
            values[kind.name] = LABELS[number - kind.size] if shown else kind.value(number, self.database.seed)
        return values

    def picture_score(self, episode: Episode, answer: str) -> float | None:
        """The score of the outputs that an answer states, as OpenCATP scores a plan's; None in a query that asks for none.

        Of each wanted output the last one counts that a call brought and the answer states; the score is their mean.
        """
        query = self.queries.get(episode.number)
        if query is None or episode.task.group == BOTH:
            return None
        brought = [call for call in episode.calls if call.status is Status.OK and call.tool in SIGNATURES]
        total = 0.0
        for want in query.task.wants:
            scores = dict(self.pictures.made(query.picture, want, len(query.task.wants) == 1))
            outputs = (str(next(iter(json.loads(episode.content(call)).values()))) for call in reversed(brought))
            stated = (output for output in outputs if output in scores and states(Need(output, (), fact_type="text"), answer))
            total += scores.get(next(stated, ""), 0.0)
        return total / len(query.task.wants)

    def made_by(self, picture: Picture, way: Way) -> str:
        """What stands at the end of a way: a handle, or a text."""
        chain, route = way
        if not route:
            return self.pictures.handle(picture._replace(chain=chain))
        return self.pictures.table.text(picture.combination, picture.sample, chain, route)

    def needs_of(self, query: PictureQuery, chosen: Chosen, wanted: Sequence[Need]) -> list[Need]:
        """The calls that make chosen outputs as needs, each after what it works on; `wanted` are those that are asked for."""
        picture, handle = query.picture, self.pictures.handle(query.picture)
        made = list(dict.fromkeys(step for way in chosen for step in _making(way)))
        needs: list[Need] = []
        for way in made:
            chain, route = way
            tool, source = (*chain, *route)[-1], (chain, route[:-1]) if route else (chain[:-1], ())
            need = Need(
                self.made_by(picture, way) or NOTHING,
                (tool,),
                {SIGNATURES[tool].takes: self.made_by(picture, source)},
                (made.index(source),) if source in made else (),
                _wish(tool, handle),
                tool,
                fact_type="text" if route else "identifier",
                asked=way in chosen,
            )
            if way in chosen:
                like = wanted[chosen.index(way)]
                accept = tuple(other for other in (like.fact, *like.accept) if other and other != need.fact)
                need = replace(need, accept=accept, rivals=like.rivals)
            needs.append(need)
        return needs

    @staticmethod
    def way_of(chain: Sequence[str]) -> Way:
        """The way that tools make which work one after the other."""
        restorers = tuple(tool for tool in chain if tool in IMAGE_TOOLS)
        return restorers, tuple(chain[len(restorers) :])

    def about_shown(self, need: Need, shown: str, after: int) -> Need:
        """A need of an API that takes what an image shows, for one who takes this text for it; the need `after` brings it."""
        capability = self.capabilities[need.capability]
        subject = subject_of(capability)
        assert subject is not None
        arguments = {**(need.arguments or {}), subject.name: shown}
        numbers = self.database.numbers(capability, arguments)
        fact = need.fact if numbers is None else str(self.database.fact(capability, numbers))
        return replace(need, fact=fact, arguments=arguments, after=(after,), alternative=None)


class QueryWriter:
    """Writes the queries; those about APIs by the marketplace's own writer."""

    def __init__(
        self, market: "TaskWriter", answers: OneWorldAnswers, kinds: Mapping[str, float], vision: bool, success_score: float
    ) -> None:
        self.seed, self.answers, self.pictures = market.seed, answers, answers.pictures
        self.market, self.offers, self.candidates = market, market.offers, market.candidates
        self._tools = TOOLS if vision else ()
        self._weights = [kinds.get(kind, 0.0) for kind in KINDS]
        self._success = success_score
        offered = [self.offers.capabilities[name] for name in self.offers.tools]
        self._subjects = [capability for capability in offered if subject_of(capability) is not None]
        if kinds.get(BOTH) and not self._subjects:
            raise ConfigError("source.tools", "no API takes what an image shows; ask for more tools, or leave `both` out")

    @property
    def most_candidates(self) -> int:
        """The largest number of tools that a query can have on offer."""
        return min(self.candidates[1], len(self.offers.catalog)) + len(self._tools)

    def write(self, split: str, index: int, number: int) -> Task:
        """Write the query at a place of a split."""
        luck = Luck("one world", split, index, seed=self.seed)
        kind = KINDS[luck.weighted(self._weights)]
        if kind == FACTS:
            task = replace(self.market.write(split, index, number), group=kind)
        elif kind == NO_TOOL:
            task = self._without_tool(luck, split, index)
        elif kind == SEARCH:
            task = self._look_up(luck, split, index)
        else:
            task, query = self._about_picture(luck, split, index, kind == BOTH)
            self.answers.queries[number] = query
        offered = list(task.candidates)
        for tool in self._tools:
            offered.insert(luck.below(len(offered) + 1), tool)
        return replace(task, number=number, group=kind, candidates=tuple(offered))

    def _task(self, split: str, index: int, query: str, needs: Sequence[Need], chosen: Sequence[Capability]) -> Task:
        candidates = self.market.offered(split, index, chosen)
        level = Luck("size level", split, index, seed=self.seed).weighted(SIZE_LEVELS)
        return Task(f"{split}-{index:05d}", 0, query, tuple(needs), candidates, size_level=level)

    def _any(self, luck: Luck) -> Capability:
        return self.offers.capabilities[luck.pick(list(self.offers.tools))]

    def _opened(self, luck: Luck, capability: Capability, text: str) -> str:
        return f"{self.market.opener(capability)} {text}" if luck.uniform() < OPENER_SHARE else text

    def _without_tool(self, luck: Luck, split: str, index: int) -> Task:
        """A sum, which has a known answer. What is on offer is about something else, as where a search was not needed."""
        near = self._any(luck)
        question, answer = arithmetic(luck)
        need = Need(str(answer), (), {}, wish=question, fact_type="number", given=True)
        return self._task(split, index, self._opened(luck, near, question), [need], [near])

    def _look_up(self, luck: Luck, split: str, index: int) -> Task:
        """One fact, in a user's words."""
        capability = self._any(luck)
        need = self.market.one_need(luck, split, capability)
        wish = reword(need.wish, luck)
        query = tool_query(wish, self.market.opener(capability), luck)
        return self._task(split, index, query, [replace(need, wish=wish)], [capability])

    # -- pictures --------------------------------------------------------------------------------------------------------

    def _about_picture(self, luck: Luck, split: str, index: int, then_api: bool) -> tuple[Task, PictureQuery]:
        of = [task for task in tasks("all", split) if not then_api or task.wants == (Output("label"),)]
        samples = split_samples(self.pictures.table.samples, split)
        for _ in range(_TRIES):
            about = luck.pick(of)
            query = PictureQuery(about, Picture(about.combination, luck.pick(samples)))
            # an API takes the class itself, and none that is near it
            wanted = self._accepted(query, 1.0 if then_api else self._success)
            chosen_ways = self._cheapest(query, wanted)
            needs = [] if chosen_ways is None else self.answers.needs_of(query, chosen_ways, wanted)
            if 0 < len(needs) <= len(NEEDS) - then_api:
                break
        else:
            raise ConfigError("source.success_score", f"no scene is answered that well; lower it from {self._success:g}")
        handle = self.pictures.handle(query.picture)
        text = about.description.replace("The given image", f"The image {handle}")
        chosen = self._any(luck)
        if then_api:
            chosen = luck.pick(self._subjects)
            last, wish = self._api_about(luck, split, chosen, len(needs) - 1, wanted[0].fact)
            needs = [replace(need, asked=False) for need in needs] + [last]
            text = f"{text.removesuffix('.')}, as in striped kite. Then tell me {wish}."
        task = self._task(split, index, self._opened(luck, chosen, text), needs, [chosen])
        return replace(task, size_level=sample_level(query.task, query.picture.sample)), query

    def _api_about(self, luck: Luck, split: str, capability: Capability, after: int, shown: str) -> tuple[Need, str]:
        need = self.market.one_need(luck, split, capability)
        phrases = {kind.name: kind.phrase((need.arguments or {})[kind.name]) for kind in capability.parameters}
        phrases |= {kind.name: "what the image shows" for kind in capability.parameters if kind == subject_of(capability)}
        wish = capability.wish.format(**phrases)
        return self.answers.about_shown(replace(need, wish=wish), shown, after), wish

    def _accepted(self, query: PictureQuery, least: float) -> list[Need]:
        """A need for each wanted output: what is good enough, and what an answer must not state beside it."""
        needs = []
        for want in query.task.wants:
            scores = dict(self.pictures.made(query.picture, want, len(query.task.wants) == 1))
            fine = [made for made, score in scores.items() if score >= least]
            rivals: Sequence[str] = ()
            if want.kind == "label":
                rivals = [label(thing, texture, want.german) for texture in TEXTURES for thing in THINGS]
            elif want.kind == "object":
                rivals = [object_list([name], want.german) for name in OBJECTS]
            elif want.is_image:
                rivals = list(scores)
            left = tuple(rival for rival in rivals if rival not in fine)
            kind = "identifier" if want.is_image else "text"
            needs.append(Need(fine[0] if fine else "", (), accept=tuple(fine[1:]), rivals=left, fact_type=kind))
        return needs

    def _cheapest(self, query: PictureQuery, wanted: Sequence[Need]) -> Chosen | None:
        """The cheapest outputs that answer all that is wanted, a way to each, at the query's size level."""
        task, picture = query
        if not all(need.fact for need in wanted):
            return None
        prices = {tool: v100().price(tool, sample_level(task, picture.sample)) for tool in TOOLS}
        ways = list(ways_of(any(want.german for want in task.wants)))
        texts = {way: self.answers.made_by(picture, way) for way in ways if way[1]}
        states = [{text: read_answer([need], text).present[0] for text in dict.fromkeys(texts.values())} for need in wanted]
        options: list[list[Way]] = []
        for want, need, states_it in zip(task.wants, wanted, states, strict=True):
            fine = {need.fact, *need.accept}
            if want.is_image:
                good = [way for way in ways if not way[1] and way[0] and self.answers.made_by(picture, way) in fine]
            else:
                good = [way for way, text in texts.items() if states_it[text]]
            options.append(sorted(good, key=lambda way: (_price(_making(way), prices), way)))
        return _cheapest_of(options, prices)


def ways_of(german: bool) -> Iterator[Way]:
    """Every way to an image or a text that tools make of a query's image, the image itself first."""
    for chain in CHAINS:
        yield chain, ()
        for reader in READER_TOOLS:
            yield chain, (reader,)
            if german:
                yield chain, (reader, "machine_translation")


def _making(way: Way) -> tuple[Way, ...]:
    """The calls that a way is made of, by what each makes."""
    chain, route = way
    images = [(chain[: end + 1], ()) for end in range(len(chain))]
    return (*images, *((chain, route[: end + 1]) for end in range(len(route))))


def _price(steps: Collection[Way], prices: Mapping[str, float]) -> float:
    return sum([prices[(*chain, *route)[-1]] for chain, route in steps])


def _cheapest_of(options: Sequence[Sequence[Way]], prices: Mapping[str, float]) -> Chosen | None:
    """One way from each list, all different, so that what they are made of costs least; lists are sorted by price."""
    best: tuple[float, Chosen | None] = (inf, None)

    def go_on(chosen: Chosen, steps: frozenset[Way], price: float) -> None:
        nonlocal best
        if len(chosen) == len(options):
            best = (price, chosen) if price < best[0] - 1e-12 else best
            return
        for way in options[len(chosen)]:
            steps_of_way = _making(way)
            if _price(steps_of_way, prices) >= best[0]:
                break
            more = price + _price([step for step in steps_of_way if step not in steps], prices)
            if way not in chosen and more < best[0]:
                go_on((*chosen, way), steps.union(steps_of_way), more)

    go_on((), frozenset(), 0.0)
    return best[1]


def _wish(tool: str, handle: str) -> str:
    if tool in IMAGE_TOOLS:
        return f"the image {handle} {_DOING[tool]}"
    known = {
        "image_classification": "the class that image {} belongs to",
        "object_detection": "the names of the objects in image {}",
        "image_captioning": "a caption of image {}",
    }
    return known.get(tool, "the text about image {} in German").format(handle)
