"""Cache keys of studies cover the sources of their results."""

from pathlib import Path

import grimp
import pytest
from keyed import missing

from lfdm_lab.studies import STUDIES, barn, driving, friction, movers, risk_validation, sharing, variants
from lfdm_ros.calibration import checkpoint
from lfdm_ros.sharing.risk import RiskSettings

ROOT = Path(__file__).resolve().parents[3]
HARMLESS = {"lfdm_lab", "lfdm_lab.studies"}


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("lfdm_ros", "lfdm_lab", cache_dir=None)


@pytest.mark.parametrize("study", [driving, sharing, movers, barn, risk_validation, variants, friction],
                         ids=lambda study: study.__name__.split(".")[-1])
def test_a_key_covers_all_imports_of_its_study(imports, study) -> None:
    used = imports.find_upstream_modules(study.__name__) | {study.__name__}
    ours = {name for name in used if name.startswith("lfdm_lab")} - HARMLESS
    assert {f"{STUDIES}/{name.removeprefix('lfdm_lab.studies.')}" for name in ours} <= set(study.CACHE_DEPENDENCIES)
    shown = {f"calibration.{name}" for name in checkpoint.ONLY_SHOWING}
    names = {name.removeprefix("lfdm_ros").removeprefix(".") for name in used if not name.startswith("lfdm_lab")}
    assert not missing(names - shown, study.CACHE_DEPENDENCIES)


def test_each_line_of_a_vehicle_file_that_affects_driving_changes_the_key(tmp_path) -> None:
    text = (ROOT / "config" / "vehicles" / "hmmwv.yaml").read_text()
    keys = set()
    for name, changed in (("own", text), ("tyre", text.replace("default_tyre: fiala", "default_tyre: tmeasy")),
                          ("conventions", "conventions: lfdm\n" + text)):
        file = tmp_path / "vehicle.yaml"  # the same name: edited
        file.write_text(changed)
        assert changed != text or name == "own"
        keys |= {driving.key(driving.Trial("slalom", vehicle=str(file))),
                 risk_validation.key(risk_validation.Episodes("known", 1, 1, RiskSettings(), str(file)))}
    assert len(keys) == 6
