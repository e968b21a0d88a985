"""OpenCATP call by call: `costgym/OpenCATPCalls-v0`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from costgym.envs.base import checked_action, takes
from costgym.envs.opencatp.base import OpenCATPSettings, PlanWorld
from costgym.envs.opencatp.numeric import LEVEL_FEATURES, TASK_FEATURES, Observation, OpenCATPNumeric
from costgym.envs.world_spec import Document
from costgym.simulators.draws import log
from costgym.simulators.errors import ConfigError, check_known, check_positive
from costgym.simulators.ledger import Enforcement
from costgym.simulators.opencatp.tools import TOOLS, predecessors
from costgym.simulators.opencatp.world import PlanEpisode, made, plan_worlds
from costgym.simulators.plan import TASK_INPUT, Plan
from costgym.simulators.status import Status

CALLS: tuple[tuple[str, str], ...] = tuple((tool, source) for tool in TOOLS for source in predecessors(tool))
"""All calls as (tool, artefact). An artefact is the task's input or a tool's output, of the kind that the tool reads."""
CALL_NAMES = tuple(f"{tool} on {source}" for tool, source in CALLS)

TOOL_FEATURES = ("price", "log_seconds", "takes_text", "gives_text", "called", "running", "ready", "used", "depth")
"""Columns of `observation["tools"]`, described in `OpenCATPCallsEnv`."""
RESOURCE_FEATURES = (
    "price", "log_seconds", "in_flight", "step", "price_left", "seconds_left", "tokens_left", "calls_left",
)  # fmt: skip
"""Entries of `observation["resources"]`, described in `OpenCATPCallsEnv`."""
_NUMBER = {tool: number for number, tool in enumerate(TOOLS)}


@dataclass(frozen=True, kw_only=True)
class CallsSettings(OpenCATPSettings):
    """Arguments of `OpenCATPCallsEnv`, which describes them."""

    concurrent: bool = False
    slots: int | None = None
    gpu_capacity_mb: float | None = None
    cold_starts: bool = False
    max_steps: int = 64
    enforcement: Enforcement | None = None


class CallsWorld(PlanWorld):
    """A profile and a table, whose records without a form were made when there was only one, and those without an enforcement
    when a limit ended the episode."""

    def arguments(self, settings: Document, data: str | None = None) -> dict[str, Any]:
        return super().arguments({"concurrent": True, "enforcement": "terminate", **settings}, data)


class OpenCATPCallsEnv(OpenCATPNumeric):
    """Call vision tools on images and texts one by one, and pay for each.

    ## Description

    The tasks and tools of `OpenCATP-v0`, played in time. A call runs a tool on an artefact that exists already, the task's
    input or the output of another tool. Each tool can be called once. `finish` hands in what was made and not read by another
    tool. Tools are charged by time and memory; the outcome of every chain of tools was computed beforehand, so a step is a
    look-up.

    With `concurrent=True` a call only starts the tool and takes no simulated time; one more action, `wait`, moves the clock to
    the next call that ends. Tools can then run side by side.

    ## Action space

    | action | name | effect |
    | --- | --- | --- |
    | 0 to 45 | a tool `on` an artefact | Run the tool on that artefact. |
    | 46 | `finish` | Hand in the outputs. |

    `info["action_mask"]` is true for calls of tools that were not called yet on artefacts that exist, and always for `finish`.
    Under `enforcement="refuse"` calls that the rest of the budget cannot pay are masked too. An action that the mask forbids is
    refused: it costs nothing, takes the world's `gateway_s` (none here), ends nothing, and `info["status"]` says why. The step
    counts. An action outside the space raises `gymnasium.error.InvalidAction`.

    With `concurrent=True` action 46 is `wait` (go to the end of the next call), which is allowed while a call runs, and
    `finish` is action 47; calls that still run then are cut off and charged for the time they ran.

    ## Observation space

    A dictionary of arrays.

    ### `task`: what is asked, (12,), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `low_resolution` | 0 or 1 | The image has a low resolution. |
    | 1 | `noise` | 0 or 1 | The image is noisy. |
    | 2 | `blur` | 0 or 1 | The image is blurred. |
    | 3 | `grey` | 0 or 1 | The image has lost its colour. |
    | 4 | `image` | 0 or 1 | The restored image is wanted. |
    | 5 | `caption` | 0 or 1 | A caption is wanted, in English. |
    | 6 | `caption_de` | 0 or 1 | A caption is wanted, in German. |
    | 7 | `label` | 0 or 1 | The image's class is wanted, in English. |
    | 8 | `label_de` | 0 or 1 | The image's class is wanted, in German. |
    | 9 | `object` | 0 or 1 | The names of the objects are wanted, in English. |
    | 10 | `object_de` | 0 or 1 | The names of the objects are wanted, in German. |
    | 11 | `sequential` | 0 or 1 | One output is wanted, not several. |

    ### `level`: the image's size, (4,), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 to 3 | size level | 0 or 1 | 1 at the size level of the image, 0 elsewhere. |

    ### `tools`: one row for each tool, (10, 9), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price` | ≥ 0 | Price of a run at this size level, in units of `max_price` (0.567 USD). |
    | 1 | `log_seconds` | ≥ 0 | log(1 + seconds of a run at this size level). |
    | 2 | `takes_text` | 0 or 1 | The tool reads text, not an image. |
    | 3 | `gives_text` | 0 or 1 | The tool makes text, not an image. |
    | 4 | `called` | 0 or 1 | The tool was called. |
    | 5 | `running` | 0 or 1 | Its call has not ended; 0 unless calls run side by side. |
    | 6 | `ready` | 0 or 1 | Its output exists. |
    | 7 | `used` | 0 or 1 | Another tool was called on its output. |
    | 8 | `depth` | 0 to 1 | The number of tools in the chain that makes its output, divided by 10. |

    ### `sources`: what each tool was called on, (10, 11), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `input_of_query` | 0 or 1 | The tool was called on the task's input. |
    | 1 to 10 | a tool | 0 or 1 | The tool was called on that tool's output. |

    ### `resources`: the episode as a whole, (8,), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price` | ≥ 0 | Money spent, in units of `max_price`. |
    | 1 | `log_seconds` | ≥ 0 | log(1 + simulated seconds so far). |
    | 2 | `in_flight` | 0 to 1 | Calls that run or queue, divided by 10. |
    | 3 | `step` | 0 to 1 | Steps taken, as a share of `max_steps`. |
    | 4 | `price_left` | ≤ 1 | Share of the price limit that is left; 1 without a limit, negative once overspent. |
    | 5 | `seconds_left` | ≤ 1 | Share of the seconds left, likewise. |
    | 6 | `tokens_left` | ≤ 1 | Share of the tokens left, likewise. |
    | 7 | `calls_left` | ≤ 1 | Share of the calls left, likewise. |

    The space holds the true ends of what is open here: they follow from the profile and the limits, since a tool runs once.
    No limit is ever passed under `enforcement="refuse"`, unless calls run side by side.

    ## Rewards

    Each step brings -(1 - alpha) × (money charged in this step) / `max_price`, and `finish` brings alpha × score, so the
    undiscounted return is the Quality of Plan. To finish without any output scores 0 and costs nothing.

    ## Starting state

    The clock stands at 0 and the task's input is the only artefact. The task and the sample are drawn uniformly from the
    split; `reset(options={...})` names them instead: `task` (a number in the old numbering), `sample` and `level`. There is
    no other chance.

    ## Episode end

    * Termination: `finish`, or a limit of the budget is passed, which leaves the episode without a score. Under
      `enforcement="refuse"` (the default) no call is made that would pass one: what a call costs and how long it takes is known
      beforehand. With `concurrent=True` the calls that still run count with their whole price; a call that has to queue may end
      after the limit of seconds, which ends the episode. Under `enforcement="record"` the episode goes on, but has no score.
    * Truncation: `max_steps` steps were taken. `env.spec.max_episode_steps` is the same number.

    A step after the end changes nothing and is rewarded with 0.

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `concurrent` | A call starts a tool, and `wait` goes to the next end; else a step is a call and its result. |
    | `enforcement` | What a limit does, as above. `None` takes `"refuse"`, or `"terminate"` if `concurrent`. |
    | `slots` | How many tools run at once; further calls queue. `None`: any number. |
    | `gpu_capacity_mb` | GPU memory in MB that tools share; a call waits until it fits. `None`: enough for all. |
    | `cold_starts` | Load a tool when it is called, for as long as the profile says. |
    | `max_steps` | The number of steps after which an episode is truncated. |

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `action_mask` | bool array | Which actions are allowed, one entry for each. |
    | `status` | int | Whether the action was taken (0) or refused, as in `Status`. |

    ## Version history

    * v0: first version. Since 0.2 a step is a call and its result, and a call that the budget cannot pay is refused; with
      `concurrent=True` both are as in 0.1.0.

    ## References

    * CATP-LLM (arXiv 2411.16313): the tools, their prices and the tasks.
    """

    in_time = True
    world_class = CallsWorld
    episode_state = ("_episode", "_tools", "_sources")
    column_names: Mapping[str, Sequence[str]] = {
        "task": TASK_FEATURES, "level": LEVEL_FEATURES, "tools": TOOL_FEATURES,
        "sources": (TASK_INPUT, *TOOLS), "resources": RESOURCE_FEATURES,
    }  # fmt: skip

    @takes(CallsSettings)
    def __init__(self, settings: CallsSettings) -> None:
        self._configure(settings)
        concurrent, slots, enforcement = settings.concurrent, settings.slots, settings.enforcement
        if slots is not None:
            check_positive("slots", slots)
        check_positive("max_steps", settings.max_steps)
        if not isinstance(concurrent, bool):
            raise ConfigError("concurrent", f"expected true or false, got {concurrent!r}")
        if enforcement is not None:
            check_known("enforcement", enforcement, get_args(Enforcement))
        self.enforcement: Enforcement = enforcement or ("terminate" if concurrent else "refuse")
        self._refuses = self.enforcement == "refuse" and bool(self.budget.as_dict())
        self.slots, self.gpu_capacity_mb, self.cold_starts = slots, settings.gpu_capacity_mb, bool(settings.cold_starts)
        self.max_steps, self.concurrent = settings.max_steps, concurrent
        self.wait_action = len(CALLS) if concurrent else None
        self.finish_action = len(CALLS) + concurrent
        self.action_names = (*CALL_NAMES, *(("wait", "finish") if concurrent else ("finish",)))
        self._load_s = self.profile.cold_start_s() if self.cold_starts else dict.fromkeys(TOOLS, 0.0)
        self._worlds = plan_worlds(self.profile, slots, self.gpu_capacity_mb, self.cold_starts)
        loading_s = sum(self._load_s.values())
        never_passed = self._ceilings if self._refuses and not concurrent else None
        spaces = self._boxes("resources", loading_s=loading_s, most=never_passed)
        spaces["sources"] = gym.spaces.Box(0.0, 1.0, (len(TOOLS), 1 + len(TOOLS)), np.float32)
        self.observation_space: gym.spaces.Space[Observation] = gym.spaces.Dict(spaces)  # type: ignore[assignment]
        self.action_space = gym.spaces.Discrete(self.finish_action + 1)
        self._loss = (1.0 - self.alpha) / self.max_price

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        self._begin(seed, options)
        self._episode = self._begin_calls()
        self._sources = np.zeros((len(TOOLS), 1 + len(TOOLS)), np.float32)
        return self._observe(), self._info()

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        task, action = self.task, checked_action(action, self.finish_action + 1)
        if self._over:
            return self._observe(), 0.0, True, False, self._info()
        self._steps += 1
        episode, before = self._episode, self._episode.ledger.price
        self._status = Status.OK
        gained = 0.0
        if action == self.finish_action:
            episode.stop()
        elif not self.action_masks()[action]:
            episode.refuse()
            self._status = Status.FORBIDDEN
            tool, source = CALLS[action] if action < len(CALLS) else ("", "")
            if tool and episode.call_of(tool) is None and episode.is_ready(source):  # open, whatever it costs
                self._status = Status.OVER_BUDGET
        elif action == self.wait_action:
            episode.wait_for_end()
        else:
            self._call(*CALLS[action])
            if not self.concurrent:
                episode.wait_for_end()
        within = self._check_budget()
        if not within and self.enforcement != "record":
            episode.stop()
        if episode.over:
            self._over = True
            plan = episode.plan()
            if plan is not None and within:
                self._valid = not self.evaluator.missing(plan, task)
                self._score = self.evaluator.score(plan, task, self.sample)
                gained = self.alpha * self._score
        self._read_calls()
        reward = gained - self._loss * (episode.ledger.price - before)
        truncated = not self._over and self._steps >= self.max_steps
        self._return += reward
        return self._observe(), reward, self._over, truncated, self._info()

    def _payable(self) -> set[str]:
        """The tools whose call keeps every limit, beside the calls that still run. One that has to queue may end later."""
        episode, left_s = self._episode, self._ceilings[1]
        now, loading = episode.now_s, self._load_s
        return {
            spec.name
            for spec in episode.candidates
            if episode.affordable(spec.index) and now + loading[spec.name] + spec.latency_s <= left_s
        }

    def _call(self, tool: str, source: str) -> None:
        self._episode.start(tool, {"on": source})
        number, row = _NUMBER[tool], self._tools[_NUMBER[tool]]
        row[4] = 1.0
        self._sources[number, 0 if source == TASK_INPUT else 1 + _NUMBER[source]] = 1.0
        row[8] = 0.1
        if source != TASK_INPUT:
            self._tools[_NUMBER[source], 7] = 1.0
            row[8] += self._tools[_NUMBER[source], 8]

    def _read_calls(self) -> None:
        for call in self._episode.calls:
            row = self._tools[_NUMBER[call.tool]]
            # read again from all calls: with several in flight, one step may end more than one
            row[5], row[6] = call.finished_s < 0.0, made(call)

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The present action mask, (actions,) bool. `finish` is always allowed."""
        self._playing()
        mask = np.zeros(self.finish_action + 1, np.bool_)
        mask[self.finish_action] = True
        if not self._over:
            episode = self._episode
            called = {call.tool for call in episode.calls}
            there = {TASK_INPUT, *(call.tool for call in episode.calls if made(call))}
            open_tools = (self._payable() if self._refuses else set(TOOLS)) - called
            mask[: len(CALLS)] = [tool in open_tools and source in there for tool, source in CALLS]
            if self.wait_action is not None:
                mask[self.wait_action] = episode.in_flight > 0
        return mask

    def plan(self) -> Plan | None:
        """The plan of the tools that have ended, in the order of their calls, or None."""
        self._playing()
        return self._episode.plan()

    def _used(self) -> tuple[float, float, int, int]:
        episode = self._episode
        return episode.ledger.price, episode.now_s, 0, len(episode.calls)

    def action_text(self, action: int | np.integer[Any]) -> str:
        return self.action_names[action] if 0 <= action <= self.finish_action else f"action {action}"

    def world_settings(self) -> dict[str, Any]:
        enforced = {"enforcement": self.enforcement} if self.budget.as_dict() else {}
        return {
            **super().world_settings(),
            **enforced,
            "concurrent": self.concurrent,
            "slots": self.slots,
            "gpu_capacity_mb": self.gpu_capacity_mb,
            "cold_starts": self.cold_starts,
            "max_steps": self.max_steps,
        }

    def give_up(self) -> None:
        super().give_up()
        self._episode.stop()

    def account(self) -> PlanEpisode:
        """The present episode. A call that was cut off is charged for the time it ran."""
        return self._graded(self._episode)

    def _observe(self) -> Observation:
        used = self._used()
        resources = np.array(
            [
                used[0] / self.max_price,
                log(1.0 + used[1]),
                sum(not made(call) for call in self._episode.calls) / len(TOOLS),
                self._steps / self.max_steps,
                *self._shares_left(used),
            ],
            dtype=np.float32,
        )
        return {**self._features(), "sources": self._sources.copy(), "resources": resources}
