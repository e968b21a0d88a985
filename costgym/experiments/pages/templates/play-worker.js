// Runs the world: Pyodide, the packages that it needs, and costgym's own code. A message is a move, the reply is the state.
let game = null;

const BOOT = `
import sys, types
# the browser has no processes; Gymnasium imports their locks, and a game uses none
locks = types.ModuleType("_multiprocessing")
locks.SemLock, locks.sem_unlink = type("SemLock", (), {"SEM_VALUE_MAX": 1}), None
sys.modules["_multiprocessing"] = locks
sys.path.insert(0, "/world")
from costgym.experiments.play.game.browser import BrowserGame
`;

const say = (progress) => postMessage({ progress });

async function begin(start, task) {
  say("Loading Python …");
  const base = new URL(start.pyodide, self.location.href).href;
  const { loadPyodide } = await import(base + "pyodide.mjs");
  const python = await loadPyodide({ indexURL: base });
  say("Loading NumPy …");
  await python.loadPackage(start.packages, { messageCallback: () => {} });
  say("Loading costgym …");
  const archive = await (await fetch("world.zip")).arrayBuffer();
  python.unpackArchive(archive, "zip", { extractDir: "/world" });
  python.runPython(BOOT);
  say("Making the world: its tools, prices and luck …");
  game = python.globals.get("BrowserGame")(start.header, task, start.seed, start.again);
  postMessage({ state: game.state() });
}

onmessage = async ({ data }) => {
  try {
    if (data.start) await begin(data.start, data.task);
    else postMessage({ state: game.move(JSON.stringify(data.move)) });
  } catch (error) {
    postMessage({ failure: String(error.message || error).trim().split("\n").pop() });
  }
};
