"""Checks the environment: Python, compiler, libraries, middleware, messages, shared memory, caches.

Exit status 0 when everything works (warnings included), 2 when something does not.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

from lfdm_ros import environment
from lfdm_ros.environment import Check
from lfdm_ros.errors import InputError
from lfdm_ros.resources import share_directory

EPILOG = "example: lfdm doctor --json"


def check_kernel_cache() -> Check:
    try:
        from lfdm_ros.compiler import cache_directory
    except ImportError as error:
        return Check("kernel cache", "fail", str(error), environment.reinstall())
    folder = cache_directory()
    if folder.is_relative_to(tempfile.gettempdir()) and not os.environ.get("LFDM_CACHE_DIR"):
        return Check("kernel cache", "warn", f"only the temporary {folder} is writable, models compile anew after a reboot",
                     "export LFDM_CACHE_DIR=... to a folder that you can write to")
    return Check("kernel cache", "ok", str(folder))


def check_reference_data() -> Check:
    """Looks for the recordings of vehicles; tests without them are skipped, so this is never a failure."""
    chosen = os.environ.get("LFDM_REFERENCE_DATA")
    folder = Path(chosen) if chosen else Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
    if folder.is_dir():
        return Check("reference data", "ok", str(folder.resolve()))
    return Check("reference data", "ok", "none; only their tests and examples need them (docs/tutorials/recordings.md)")


def checks() -> list[Check]:
    """Runs all checks that apply; those of wheels do not on a ROS 2 installation."""
    from_wheels = environment.ros_from_wheels()
    found = [environment.check_prefix()]
    if from_wheels:
        found += [check() for check in (environment.BEFORE_INSTALL if environment.from_source() else environment.TO_RUN)]
        try:
            found.append(environment.check_lock(share_directory() / "requirements.txt"))
        except (InputError, OSError) as error:
            found.append(Check("locked versions", "fail", str(error), environment.reinstall()))
    else:
        found += [environment.check_python(), environment.check_compiler(), environment.check_rmw()]
    found.append(environment.check_imports())
    if any(check.name == "middleware" and check.status == "fail" for check in found):
        # Importing rclpy would end this process: rcl calls exit() when the middleware is not the one that it asks for.
        found.append(Check("messages", "fail", "not checked for want of the middleware", "unset RMW_IMPLEMENTATION"))
    else:
        found.append(environment.check_messages())
    found += [environment.check_discovery(), environment.check_shared_memory(), check_kernel_cache(), check_reference_data()]
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the table; returns 2 when a check fails."""
    found = checks()
    if args.json:
        print(json.dumps({"ok": all(c.status != "fail" for c in found), "checks": [c._asdict() for c in found]}, indent=2))
    else:
        for check in found:
            print(f"{check.status:<5} {check.name:<16} {check.detail}")
            if check.fix:
                print(f"{'':<22} fix: {check.fix}")
    return 2 if any(check.status == "fail" for check in found) else 0
