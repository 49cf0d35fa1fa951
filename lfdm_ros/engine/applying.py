"""Application of stored posteriors: by policy, through the gates, and back. Independent of ROS."""

import threading
from collections.abc import Callable
from dataclasses import asdict

from lfdm_ros.calibration.gates import SPEED, GateLimits, GateResult, refused, verdicts
from lfdm_ros.calibration.store import APPLIED, ROLLED_BACK, PosteriorStore, Version
from lfdm_ros.errors import InputError

OFF, MANUAL, AUTO = "OFF", "MANUAL", "AUTO"
POLICIES = (OFF, MANUAL, AUTO)


class Applier:
    """Application and rollback of the versions in a store. Its methods may be called from any thread.

    Attributes:
        gates: verdicts on the version judged last.
        waiting: text on the version that AUTO waits to apply; empty: none.
    """

    def __init__(self, store: PosteriorStore, *, policy: Callable[[], str], limits: Callable[[], GateLimits],
                 speed: Callable[[], float | None], changed: Callable[[Version | None], None]) -> None:
        """Creates an applier with no version pending.

        Args:
            policy: returns the present policy: OFF, MANUAL or AUTO.
            speed: returns the present speed of the vehicle [m/s]; None: unknown.
            changed: called with the version now in force; None: the vehicle file.
        """
        self._store, self._policy, self._limits, self._speed, self._changed = store, policy, limits, speed, changed
        self._lock = threading.RLock()
        self._pending: Version | None = None
        self.gates: list[GateResult] = []
        self.waiting = ""

    def judge(self, version: Version) -> list[GateResult]:
        """Returns the gates' verdicts on a version, against the one in force and the vehicle's speed."""
        with self._lock:
            in_force = self._store.in_force()
            self.gates = verdicts(version.summary, in_force.summary if in_force else None, self._speed(), self._limits())
            return self.gates

    def offer(self, version: Version) -> str:
        """Takes a new calibration: AUTO applies it, or waits for the vehicle to be slow; returns the outcome in one line."""
        with self._lock:
            self._pending, self.waiting = None, ""
            reason = refused(self.judge(version))
            if self._policy() != AUTO:
                return f"stored as version {version.number}" + (f"; the gates would refuse it: {reason}" if reason else "")
            if not reason:
                return self._put_in_force(version, "apply_policy AUTO, all gates passed")
            if all(verdict.passed or verdict.name == SPEED for verdict in self.gates):
                self._pending, self.waiting = version, f"version {version.number} waits: {reason}"
                return self.waiting
            return f"stored as version {version.number}, not applied: {reason}"

    def retry(self) -> str:
        """Applies the version that waits for a slow vehicle, if it is slow; returns the outcome in one line, or ''."""
        with self._lock:
            if self._pending is None:
                return ""
            if self._policy() != AUTO:
                self._pending, self.waiting = None, ""
                return ""
            failed = {verdict.name for verdict in self.judge(self._pending) if not verdict.passed}
            return "" if failed == {SPEED} else self.offer(self._pending)

    def apply(self, number: int | None) -> tuple[bool, str]:
        """Applies a version, None: the newest, if all gates pass; returns success and a message."""
        with self._lock:
            try:
                if self._policy() == OFF:
                    return False, "apply_policy is OFF; set it to MANUAL or AUTO"
                version = self._store.newest() if number is None else self._store.version(number)
                if version is None:
                    return False, f"{self._store.path} holds no posterior yet"
                reason = refused(self.judge(version))
                if reason:
                    return False, f"version {version.number} is not applied: {reason}"
                return True, self._put_in_force(version, "asked for, all gates passed")
            except InputError as error:
                return False, str(error)

    def roll_back(self, number: int) -> tuple[bool, str]:
        """Goes back to a version before the one in force, 0: to the vehicle file; returns success and a message.

        A version that was in force before need not pass the gates: the way back from a bad posterior must be open, also while driving.
        """
        with self._lock:
            try:
                journal = self._store.journal()
                current = self._store.in_force()
                newest = current.number if current else 0
                if number >= newest:
                    return False, f"version {number} is not before version {newest}, which is in force; use apply_posterior to go forward"
                version = self._store.version(number) if number else None
                if version is not None and all(entry.number != number for entry in journal):
                    reason = refused(self.judge(version))
                    if reason:
                        return False, f"version {number} was never in force and does not pass: {reason}"
                self._store.put_in_force(number, ROLLED_BACK, f"asked for, from version {newest}")
                self._pending, self.waiting = None, ""
                self._changed(version)
                return True, f"back to version {number}" if number else "back to the vehicle file"
            except InputError as error:
                return False, str(error)

    def gate_records(self) -> list[dict[str, object]]:
        """Returns the last verdicts, for a manifest."""
        return [asdict(verdict) for verdict in self.gates]

    def _put_in_force(self, version: Version, why: str) -> str:
        self._store.put_in_force(version.number, APPLIED, why)
        self._pending, self.waiting = None, ""
        self._changed(version)
        return f"version {version.number} is in force"
