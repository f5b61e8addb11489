"""How fast geoact is beside Stable-Baselines3, SBX, a plain PyTorch loop and the machine itself: `make bench`."""
