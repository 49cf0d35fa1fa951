"""Posteriors as numbered versions in a folder, and the journal of which was in force when and why. Independent of ROS.

    STORE/versions/0001/     the files of a calibration, posterior.json (what is published of it) and manifest.json
    STORE/journal.json       what was put in force, in order; the last entry counts

A version appears by one rename of a folder whose content is on the disk already, the journal is replaced by one rename: a process killed at
any moment leaves either the old or the new store. Files are never changed; the manifest has their SHA-256, to detect damage.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lfdm_ros.documents import read_json
from lfdm_ros.errors import InputError, prefixing, reason
from lfdm_ros.files import content_digest, replacing

POSTERIOR, SUMMARY, MANIFEST = "posterior.json", "summary.json", "manifest.json"
APPLIED, ROLLED_BACK = "applied", "rolled back"
_UNFINISHED = ".unfinished_"


@dataclass(frozen=True)
class Version:
    """One stored calibration; `manifest` as in `PosteriorStore.add`."""

    number: int
    directory: Path
    manifest: Mapping[str, Any]

    @property
    def summary(self) -> dict[str, Any]:
        return read_json(self.directory / SUMMARY)

    @property
    def posterior(self) -> dict[str, Any]:
        """Published content; see `describe`."""
        return read_json(self.directory / POSTERIOR)


@dataclass(frozen=True)
class Entry:
    """A line of the journal: version `number` (0: the vehicle file) was put in force at `time` (ISO 8601, UTC)."""

    number: int
    action: str
    time: str
    why: str


class PosteriorStore:
    """A folder of posteriors. Any number of readers; `writer` ensures a single writer."""

    def __init__(self, path: str | os.PathLike[str], report: Callable[[str], None] = lambda text: None) -> None:
        """Opens a store, which need not exist yet. `report`: called once for each damaged version."""
        self.path = Path(path)
        self._folder = self.path / "versions"
        self._report = report
        self._reported: set[int] = set()
        self._intact: dict[int, Version] = {}
        self._lock: int | None = None

    def writer(self) -> PosteriorStore:
        """Locks the store for writing until `close`; removes the remains of a killed writer. Raises InputError: another process writes, or
        the folder cannot be created."""
        with prefixing(f"cannot write to the store {self.path}", OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel releases it when the process is killed
        except OSError:
            self.close()
            raise InputError(f"the store {self.path} is used by another calibrator; give this one a store of its own") from None
        for left in self._folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        return self

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(self, directory: str | os.PathLike[str], *, gates: Sequence[Mapping[str, Any]] = (), run: str = "",
            notes: Mapping[str, str] | None = None, continued_from: int = 0) -> Version:
        """Stores a calibration's folder as the next version.

        Args:
            gates: verdicts at this time, for the record.
            run: identifier of this run; a run already stored is not stored again.
            notes: recording's SHA-256 -> remark, such as that it was recovered.
            continued_from: the version that this one continues; 0: none.

        Returns:
            The version; its manifest has version, created (ISO 8601, UTC), run, model, vehicle, recipe, seed, draws, chains, software,
                interrupted, continued_from, recordings (name, path, sha256, note), gates and files (name -> SHA-256).

        Raises:
            InputError: the folder is not a finished calibration, or cannot be stored.
        """
        same = next((version for version in reversed(self.versions()) if run and version.manifest["run"] == run), None)
        if same is not None:
            return same
        source = Path(directory)
        summary = read_json(source / SUMMARY)
        read_json(source / POSTERIOR)
        number = 1 + max(self._numbers(), default=0)
        scratch: Path | None = None
        try:
            scratch = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
            scratch.chmod(0o755)  # tempfile makes folders that only their owner can read
            shutil.copytree(source, scratch, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.partial", ".*", MANIFEST))
            files = sorted(path for path in scratch.rglob("*") if path.is_file())
            manifest = {
                "version": number, "created": now(), "run": run, "model": summary.get("model", ""), "vehicle": summary.get("vehicle", ""),
                "recipe": summary.get("recipe", ""), **{key: summary.get(key) for key in ("seed", "draws", "chains")},
                "software": summary.get("version", ""), "interrupted": bool(summary.get("interrupted")), "continued_from": continued_from,
                "recordings": [{**recording, "note": (notes or {}).get(str(recording.get("sha256")), "")}
                               for recording in summary.get("recordings", [])],
                "gates": [dict(gate) for gate in gates],
                "files": {str(path.relative_to(scratch)): content_digest([path]) for path in files}}
            (scratch / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            for path in scratch.rglob("*"):
                _flush(path)
            _flush(scratch)
            target = self._folder / f"{number:04d}"
            scratch.rename(target)
            _flush(self._folder)
        except BaseException as error:
            if scratch is not None:  # which would keep a full disk full
                shutil.rmtree(scratch, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            raise InputError(f"cannot store {source} in {self.path}: {reason(error)}; nothing stored before is touched") from None
        self._intact[number] = Version(number, target, manifest)
        return self._intact[number]

    def versions(self) -> list[Version]:
        """Returns all undamaged versions, oldest first."""
        return [version for number in self._numbers() if (version := self._look(number)) is not None]

    def newest(self) -> Version | None:
        """Returns the version with the highest number that is not damaged."""
        return next((version for number in reversed(self._numbers()) if (version := self._look(number)) is not None), None)

    def version(self, number: int) -> Version:
        """Returns one version. Raises InputError: it does not exist or is damaged."""
        found = self._look(number)
        if found is None:
            available = ", ".join(str(n) for n in self._numbers()) or "none"
            fault = "is damaged" if number in self._numbers() else "does not exist"
            raise InputError(f"{self.path}: version {number} {fault}; choose one of: {available}")
        return found

    def journal(self) -> list[Entry]:
        """Reads the entries of the journal, oldest first. Raises InputError: the journal cannot be read."""
        path = self.path / "journal.json"
        if not path.exists():
            return []
        try:
            return [Entry(int(e["number"]), str(e["action"]), str(e["time"]), str(e["why"])) for e in read_json(path)["entries"]]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged ({error}); put a copy back, or move it away to begin with the vehicle file") from None

    def in_force(self) -> Version | None:
        """Returns the version put in force last, or its predecessor if it is damaged; None: the vehicle file."""
        for entry in reversed(self.journal()):
            version = self._look(entry.number) if entry.number else None
            if version is not None or not entry.number:
                return version
        return None

    def put_in_force(self, number: int, action: str, why: str) -> Entry:
        """Makes a version the one in force, or the vehicle file (0), by one atomic replacement of the journal. Raises InputError: no such
        version, it is damaged, or the journal cannot be written."""
        if number:
            self.version(number)
        entry = Entry(number, action, now(), why)
        write_json_atomically(self.path / "journal.json", {"entries": [asdict(e) for e in (*self.journal(), entry)]})
        return entry

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self._folder.glob("*") if path.name.isdigit())

    def _look(self, number: int) -> Version | None:
        if number in self._intact:  # files of a version do not change; reading them again each second would cost
            return self._intact[number]
        directory = self._folder / f"{number:04d}"
        try:
            manifest = read_json(directory / MANIFEST)
            wrong = [name for name, digest in manifest["files"].items() if content_digest([directory / name]) != digest]
            if wrong:
                raise InputError(f"{directory / wrong[0]} has changed")
            if int(manifest["version"]) != number:
                raise InputError(f"{directory / MANIFEST} is of version {manifest['version']}")
        except (OSError, InputError, KeyError, TypeError, AttributeError, ValueError) as error:
            if directory.is_dir() and number not in self._reported:
                self._reported.add(number)
                self._report(f"stored posterior {number} is damaged and left out: {error}")
            return None
        self._intact[number] = Version(number, directory, manifest)
        return self._intact[number]


def now() -> str:
    """Returns the time, ISO 8601, UTC, to the second."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def write_json_atomically(path: Path, content: Mapping[str, Any]) -> None:
    """Replaces a file by JSON atomically, synced to disk. Raises InputError: it cannot be written."""
    with prefixing(f"cannot write {path}", OSError):
        with replacing(path) as partial:
            partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            _flush(partial)
        _flush(path.parent)


def describe(directory: str | os.PathLike[str]) -> None:
    """Writes posterior.json of a calibration's folder: `load_posterior_summary` as JSON, not finite values as null. Raises InputError: the
    folder is no finished calibration, or cannot be written."""
    from lfdm_ros.calibration.results import load_posterior_summary
    from lfdm_ros.calibration.summary import write_json

    content = load_posterior_summary(directory)
    path = Path(directory) / POSTERIOR
    with prefixing(f"cannot write {path}", OSError):
        write_json(path, {**content, "thinned_draws": [[float(v) for v in row] for row in content["thinned_draws"]]})


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":  # in a separate process: its imports would delay threads with deadlines
    try:
        describe(sys.argv[1])
    except InputError as problem:
        sys.exit(str(problem))
