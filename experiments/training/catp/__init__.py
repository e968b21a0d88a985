"""CATP-LLM's offline training, with IFT and RLTF as baselines."""
