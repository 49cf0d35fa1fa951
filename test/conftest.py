"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The recorded vehicles; README.md says where each set is published."""
    path = Path(os.environ.get("LFDM_REFERENCE_DATA", ROOT / ".." / "shared" / "data")).resolve()
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set LFDM_REFERENCE_DATA")
    return path
