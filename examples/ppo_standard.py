"""sb3-contrib's MaskablePPO, default settings but gamma=1, on `gymnasium.make`: `python examples/ppo_standard.py [SEED]`."""

import sys
import time

import gymnasium as gym
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env

import costgym  # noqa: F401  registers the environments

SEED, WORLD = int(sys.argv[1]) if len(sys.argv) > 1 else 0, {"budget": {"price": 20}}
torch.set_num_threads(1)
test = gym.make("costgym/Marketplace-v0", split="test", **WORLD)
train = make_vec_env("costgym/Marketplace-v0", 8, SEED, env_kwargs={**WORLD, "split": "train-large"})
model = MaskablePPO("MultiInputPolicy", train, gamma=1.0, seed=SEED)
spent = 0.0
for updates in (6, 26):
    begin = time.process_time()
    model.learn(updates * 8 * 2048, reset_num_timesteps=False)
    spent, passed = spent + time.process_time() - begin, 0
    for number in range(400):
        (observation, info), over = test.reset(seed=number, options={"task": test.unwrapped.numbers[number]}), False
        while not over:
            action, _ = model.predict(observation, action_masks=info["action_mask"], deterministic=True)
            observation, _, terminated, truncated, info = test.step(action)
            over = terminated or truncated
        passed += info["is_success"]
    print(f"{model.num_timesteps} decisions, {spent:.0f} processor-seconds: passed {passed / 400:.3f}", flush=True)
