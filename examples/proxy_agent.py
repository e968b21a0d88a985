"""A plain MCP client behind `costgym proxy`: it asks a time server for the time in three cities, once or several times.

    pip install mcp-server-time
    python examples/proxy_agent.py observed.jsonl 24 1 --scenario marketplace --price convert_time=2

Arguments: the log, the number of runs, the tries for each city, then options of `costgym proxy`. Each run gets a verdict.
"""

import asyncio
import json
import subprocess
import sys

from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

from costgym.chaos import give_verdict

OFFSETS = {"Asia/Tokyo": "+09:00", "Asia/Kolkata": "+05:30", "Africa/Nairobi": "+03:00"}


async def find_time(client, city, tries):
    """Whether the time in a city was returned in one of the tries."""
    question = {"source_timezone": "Europe/Berlin", "time": "09:30", "target_timezone": city}
    for _ in range(tries):
        reply = await client.call_tool("convert_time", question)
        try:
            content = json.loads(reply.content[0].text)
        except ValueError:
            continue  # a reply that was cut off
        if reply.is_error:
            await asyncio.sleep(content.get("retry_after_s", 0))
        elif content.get("target", {}).get("datetime", "").endswith(OFFSETS[city]):
            return True
    return False


async def run(address, name, seed, tries):
    """One session with the proxy, whose address sets the seed and names the run and its task."""
    async with (
        streamable_http_client(f"{address}?seed={seed}&run={name}&task=cities") as streams,
        ClientSession(*streams) as client,
    ):
        await client.initialize()
        return all([await find_time(client, city, tries) for city in OFFSETS])


def main(log, runs, tries, *options):
    """Start a proxy, play the runs, and write each run's verdict into the log."""
    command = ["costgym", "proxy", "--port", "0", "--time-scale", "0.001", "--log", log, *options, "--", "mcp-server-time"]
    proxy = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = next(line.split()[-1] for line in proxy.stderr if line.startswith("proxy at "))
        label = "-".join(options[1::2]) or "plain"
        for seed in range(int(runs)):
            name = f"{label}-{tries}-{seed}"
            give_verdict(log, name, asyncio.run(run(address, name, seed, int(tries))))
    finally:
        proxy.terminate()
        proxy.wait(30)


if __name__ == "__main__":
    main(*sys.argv[1:])
