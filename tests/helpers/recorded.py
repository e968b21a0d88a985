"""Recorded replies of the published codes in our words, and a model that writes down what it is asked."""

import contextlib
import json

from costgym.agents.models.base import SUMMARISE, VOTE, FunctionCall, Message
from tests.helpers.scripted import Scripted

GIVE_UP = ("finish", {"answer": "", "give_up": True})
REGISTER = {"function_selection": ("function_name", "name"), "functions_selection": ("functions_names", "names")}


def line(reply):
    """A recorded reply: their Finish is our finish, their selection our tool_register."""
    call = reply.get("function_call")
    if call is None:
        return reply["content"]
    name, arguments = call["name"], call["arguments"]
    if name in REGISTER or name == "Finish":
        with contextlib.suppress(ValueError):
            arguments = json.loads(arguments)
    if name in REGISTER:
        theirs, ours = REGISTER[name]
        name = "tool_register"
        if isinstance(arguments, dict):
            arguments = {ours if key == theirs else key: value for key, value in arguments.items()}
    elif name == "Finish":
        name = "finish"
        if isinstance(arguments, dict):
            if arguments.get("return_type") == "give_up_and_restart":
                arguments = GIVE_UP[1]
            else:
                arguments = {"answer": arguments["final_answer"]} if "final_answer" in arguments else {}
    return Message("assistant", reply["content"] or "", (FunctionCall(name, arguments),))


class Recorder(Scripted):
    """Says the recorded lines; `events` is what it is asked, and with `calls` what it calls."""

    def __init__(self, row, calls=True):
        super().__init__([line(reply) for reply in row["script"]], row.get("ranks", ("A",)), GIVE_UP)
        self.events, self.calls = [], calls

    def complete(self, messages, functions, purpose="act"):
        if purpose == SUMMARISE:
            self.events.append(("summary",))
            return super().complete(messages, functions, VOTE)
        reply = super().complete(messages, functions, purpose)
        if purpose == VOTE:
            self.events.append(("rank", reply.message.content))
            return reply
        self.events.append(("llm", tuple(f.name for f in functions)))
        for call in reply.message.calls:
            if self.calls or call.name == "finish":
                self.events.append(("env", call.name.replace("finish", "Finish")))
        return reply
