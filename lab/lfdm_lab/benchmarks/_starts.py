"""Start-up times of scripts in processes of their own, with an empty cache of compiled code and with a full one."""

import os
import subprocess
import sys
import tempfile


def seconds_of_starts(script: str, runs: int) -> tuple[list[float], list[float]]:
    """Runs a script in new processes and returns the seconds it prints: with an empty cache, then with the cache of that run.

    Args:
        script: Python; prints one number, the seconds from its first line.
    """
    def seconds(cache: str) -> float:
        env = {**os.environ, "LFDM_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(sys.path)}
        return float(subprocess.run([sys.executable, "-c", script], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)

    first, later = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            first.append(seconds(cache))
            later.append(seconds(cache))
    return first, later
