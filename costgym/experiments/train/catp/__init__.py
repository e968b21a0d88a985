"""Train CATP-LLM offline, and the baselines IFT and RLTF."""
