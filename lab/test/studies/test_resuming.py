"""Studies that are stopped."""

from pathlib import Path
from typing import Any

import pytest
from disks import full

from lfdm_lab.studies.resuming import KEPT, carry_out
from lfdm_ros.errors import InputError
from lfdm_ros.scheduling import LocalScheduler


def test_a_study_goes_on_after_a_full_disk(tmp_path: Path) -> None:
    long = {"text": "x" * 3000}
    found: dict[int, dict[str, Any]] = {}
    with full(4000), pytest.raises(InputError, match="what is done is kept"):
        carry_out([1, 2], lambda item: long, str, LocalScheduler(), found, tmp_path)
    with (tmp_path / KEPT).open("ab") as file:  # and what a damaged disk may give
        file.write(b"\xff")
    done: list[int] = []

    def work(item: int) -> dict[str, Any]:
        done.append(item)
        return long

    for _ in range(2):
        found = {}
        carry_out([1, 2], work, str, LocalScheduler(), found, tmp_path)
        assert found == {0: long, 1: long} and done == [2]
