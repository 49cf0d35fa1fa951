"""Watched folder of finished recordings, and a record of the processed ones. Independent of ROS."""

import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lfdm_ros.calibration.store import now as time_of_day
from lfdm_ros.calibration.store import write_json_atomically
from lfdm_ros.documents import MAX_GENERATED_LENGTH, read_json, read_yaml
from lfdm_ros.errors import InputError

_STORAGE = (".mcap", ".db3")
# Number of kills of a calibration's child (most likely by the kernel, out of memory) after which it is not restarted.
MOST_DEATHS = 3
# [s] until a job that failed for other reasons than a bag, such as a full disk, is repeated; doubles up to the second.
_AGAIN, _AGAIN_AT_MOST = 60.0, 3600.0


def requested_recordings(recipe: str, *, continuing: bool = False) -> tuple[str, ...]:
    """Returns the names and patterns of all recordings that a recipe's stages need. Raises InputError: no such recipe, or, if `continuing`,
    one that cannot continue a posterior."""
    from lfdm_ros.calibration.recipe import load_recipe
    from lfdm_ros.samplers.sampler import check_continues

    loaded = load_recipe(recipe)
    if continuing:
        check_continues(loaded.sampler, f"{loaded.path}: continue_posterior")
    return tuple(dict.fromkeys(name for stage in loaded.stages for name in stage.recordings))


@dataclass(frozen=True)
class Job:
    """Calibration due from the folder. bags: paths; fresh: SHA-256 of the unprocessed ones."""

    id: str
    recipe: str
    bags: tuple[str, ...]
    fresh: tuple[str, ...]
    out: str
    continue_from: int = 0
    deaths: int = 0


@dataclass(frozen=True)
class Recorded:
    """Examined bag. signature: changes with its files; problem: why it cannot be used, empty: it can."""

    signature: str
    name: str = ""
    sha256: str = ""
    note: str = ""
    problem: str = ""


@dataclass(frozen=True)
class _Pause:
    """Delay of a failed job without a faulty bag: not repeated before the time `until` [s]."""

    job: Job
    recipe_digest: str
    until: float
    seconds: float


class BagFolder:
    """Watched folder: returns a job when new recordings complete a recipe. Its state persists in the file `memory`."""

    def __init__(self, folder: str | os.PathLike[str], recipe: str, memory: str | os.PathLike[str], *,
                 abandoned_after: float = 60.0, continuing: bool = False) -> None:
        """Opens a folder and its memory. continuing: new bags continue a posterior. abandoned_after: seconds without a change after which
        an unclosed bag counts as finished. Raises InputError: no such folder or recipe, or the memory cannot be read."""
        self.path = Path(folder)
        if not self.path.is_dir():
            raise InputError(f"watch_directory {folder} is not a folder")
        self._recipe = recipe
        self._patterns = requested_recordings(recipe, continuing=continuing)
        self._memory = Path(memory)
        self._abandoned_after = abandoned_after
        self._signatures: dict[Path, tuple[str, float]] = {}  # signature, and the time [s] since which it is unchanged
        self._pause: _Pause | None = None
        content = read_json(self._memory) if self._memory.exists() else {}
        try:
            self._bags = {path: Recorded(**_texts(entry)) for path, entry in content.get("bags", {}).items()}
            self._taken: dict[str, dict[str, str]] = {
                sha256: {key: _texts(entry)[key] for key in ("path", "time", "outcome", "failed_with")}
                for sha256, entry in content.get("taken", {}).items()}
            self._job = _job(content["job"]) if content.get("job") else None
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(f"{self._memory} is damaged ({error}); move it away, and all bags are new again") from None

    def look(self, now: float) -> list[Path]:
        """Returns finished bags that have not been examined, oldest first.

        A bag is finished once its metadata.yaml says so and its files have not changed since the last look; one that was never closed, or a
        bare storage file, once it has not changed for `abandoned_after`. now: [s], of any monotonic clock.
        """
        found = []
        for path in _bags(self.path):
            signature = _signature(path)
            before, since = self._signatures.get(path, ("", now))
            self._signatures[path] = (signature, since if signature == before else now)
            record = self._bags.get(str(path))
            if signature != before or (record is not None and record.signature == signature):
                continue
            if is_closed(path / "metadata.yaml") or self._is_quiet(path, now):
                found.append(path)
        return sorted(found, key=_age)

    def examined(self, path: Path, now: float, info: Mapping[str, Any] | None, problem: str = "") -> str:
        """Records the `lfdm bag info` of a bag, None: it failed with `problem`; returns a remark for the log, or ''."""
        if (info is None or info["note"]) and not self._is_quiet(path, now):
            return ""  # a truncated closed bag may still be being copied
        signature = self._signatures[path][0]
        if info is not None:
            problem = str(info.get("not_driven") or "") if info["messages"] else "it holds no messages"
        if info is None or problem:
            self._bags[str(path)] = Recorded(signature, problem=problem)
            remark = f"{path} cannot be used: {problem}"
        else:
            bag = Recorded(signature, str(info["recording"]), str(info["sha256"]), str(info["note"] or ""))
            same = next((record for record, other in self._bags.items() if other.sha256 == bag.sha256 and record != str(path)), "")
            self._bags[str(path)] = bag
            remark = (f"{path} has the content of {same}, which is known" if same else
                      f"{path} ({bag.name}): {bag.note}; calibrating with what is there" if bag.note else "")
        self._save()
        return remark

    def notes(self) -> dict[str, str]:
        """Returns the notes on recovered recordings by SHA-256."""
        return {bag.sha256: bag.note for bag in self._bags.values() if bag.note}

    @property
    def unfinished(self) -> Job | None:
        """Calibration that has begun and not ended."""
        return self._job

    def next_job(self, out_directory: str, now: float, continue_from: int = 0) -> Job | None:
        """Returns the next calibration: the newest bag of each recording of the recipe; None: a recording is missing, or no bag is new.

        A job that has just failed without a faulty bag is delayed; a new bag or another recipe makes a new job without delay.

        Args:
            now: [s], as for `look`.
            out_directory: folder for the results; empty: calibrations, in the watched folder.
            continue_from: version of a posterior to continue, with the oldest new bag of each recording; 0: all bags anew.
        """
        usable = [(Path(path), bag) for path, bag in self._bags.items()
                  if not bag.problem and not self._failed(bag) and Path(path).exists()]
        usable.sort(key=lambda entry: _age(entry[0]))
        if continue_from:  # in order of arrival, none twice
            usable = [entry for entry in reversed(usable) if self._is_new(entry[1])]
        chosen = {bag.name: (path, bag) for path, bag in usable if any(fnmatchcase(bag.name, pattern) for pattern in self._patterns)}
        if any(not any(fnmatchcase(name, pattern) for name in chosen) for pattern in self._patterns):
            return None
        bags = sorted(chosen.values(), key=lambda entry: _age(entry[0]))
        fresh = tuple(bag.sha256 for _, bag in bags if self._is_new(bag))
        if not fresh:
            return None
        paths, pause = tuple(str(path) for path, _ in bags), self._pause
        if pause is not None and (pause.job.bags, pause.job.fresh, pause.recipe_digest) == (paths, fresh, _recipe_digest(self._recipe)):
            # Into the same folder, which has the results so far.
            return replace(pause.job, id=uuid.uuid4().hex, deaths=0) if now >= pause.until else None
        newest = next(path for path, bag in reversed(bags) if bag.sha256 in fresh)
        return Job(uuid.uuid4().hex, self._recipe, paths, fresh, str(self._free_name(out_directory, newest.stem)), continue_from)

    def begin(self, job: Job) -> None:
        """Records a job before it starts."""
        self._job = job
        self._save()

    def died(self, job: Job) -> bool:
        """Records that a job's process was killed; False: too often to start it again."""
        self._job = replace(job, deaths=job.deaths + 1)
        self._save()
        return self._job.deaths < MOST_DEATHS

    def end(self, job: Job, outcome: str, now: float, *, failed: bool) -> str:
        """Records how a job ended; returns a remark on the consequences of a failure, or ''.

        Bags named in the message count as faulty and are left out with this recipe; the others stay new. If none is named, for example on a
        full disk, all of them are retried later. outcome: the message; now: as for `look`.
        """
        # Match whole names: drive_1 must not match drive_10.
        blamed = [bag for bag in job.bags if re.search(re.escape(bag) + r"(?![\w-]|\.\w)", outcome)] if failed else []
        before, self._pause = self._pause, None
        if failed and not blamed:
            same = before is not None and before.job.bags == job.bags
            seconds = min(2.0 * before.seconds, _AGAIN_AT_MOST) if before is not None and same else _AGAIN
            self._pause = _Pause(job, _recipe_digest(job.recipe), now + seconds, seconds)
        hashes = {path: bag.sha256 for path, bag in self._bags.items() if path in job.bags}
        for path, sha256 in hashes.items():
            if (path in blamed) if failed else (sha256 in job.fresh):
                self._taken[sha256] = {"path": path, "time": time_of_day(), "outcome": outcome,
                                       "failed_with": _recipe_digest(job.recipe) if failed else ""}
        self._job = None
        self._save()
        if self._pause is not None:
            return f"tried again in {self._pause.seconds:g} s, or with a new bag or another recipe"
        return f"left out from now on: {', '.join(blamed)}" if blamed else ""

    def _failed(self, bag: Recorded) -> bool:
        failed_with = self._taken.get(bag.sha256, {}).get("failed_with", "")
        return bool(failed_with) and failed_with == _recipe_digest(self._recipe)

    def _is_new(self, bag: Recorded) -> bool:
        """Returns whether a bag was never taken, or failed with a recipe that has been changed since."""
        taken = self._taken.get(bag.sha256)
        return taken is None or (bool(taken["failed_with"]) and not self._failed(bag))

    def _is_quiet(self, path: Path, now: float) -> bool:
        return now - self._signatures.get(path, ("", now))[1] >= self._abandoned_after

    def _free_name(self, out_directory: str, name: str) -> Path:
        """Returns a result folder that does not exist yet."""
        base = Path(out_directory) if out_directory else self.path / "calibrations"
        candidates = (base / (f"{name}_{i}" if i else name) for i in range(10_000))
        return next(path for path in candidates if not path.exists())

    def _save(self) -> None:
        write_json_atomically(self._memory, {
            "bags": {path: asdict(bag) for path, bag in self._bags.items()}, "taken": self._taken,
            "job": asdict(self._job) if self._job else None})


def _texts(entry: Mapping[Any, Any]) -> Mapping[Any, str]:
    if not all(type(value) is str for value in entry.values()):
        raise TypeError("a text is none")
    return entry


def _job(entry: Mapping[str, Any]) -> Job:
    texts = _texts({name: entry[name] for name in ("id", "recipe", "out")})
    bags, fresh = (tuple(_texts(dict(enumerate(entry[name]))).values()) for name in ("bags", "fresh"))
    return Job(texts["id"], texts["recipe"], bags, fresh, texts["out"], int(entry["continue_from"]), int(entry["deaths"]))


def is_closed(metadata: Path) -> bool:
    """Returns whether a bag's metadata.yaml says that its recorder has finished."""
    try:
        information = read_yaml(metadata, MAX_GENERATED_LENGTH)[0]["rosbag2_bagfile_information"]
        return bool((information.get("custom_data") or {}).get("closed") != "false")
    except (InputError, KeyError, TypeError, AttributeError):
        return False


def _bags(folder: Path) -> Iterable[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            if any(child.name == "metadata.yaml" or child.suffix in _STORAGE for child in _children(path)):
                yield path
        elif path.suffix in _STORAGE:
            yield path


def _children(path: Path) -> Sequence[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:  # removed, or not readable
        return ()


def _signature(path: Path) -> str:
    digest = hashlib.sha256()
    for file in (path, *(_children(path) if path.is_dir() else ())):
        try:
            status = file.stat()
        except OSError:
            continue
        digest.update(f"{file.name} {status.st_size if file.is_file() else 0} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _recipe_digest(recipe: str) -> str:
    """Returns the SHA-256 of a recipe's file, or 'unreadable'."""
    from lfdm_ros.resources import find_config

    try:
        return hashlib.sha256(find_config("calibration", recipe).read_bytes()).hexdigest()
    except (InputError, OSError):
        return "unreadable"
