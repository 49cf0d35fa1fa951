"""The page about mappings has the tables of the declarations, and valid examples."""

import re
from pathlib import Path

import pytest

from lfdm_lab.mapping_page import BEGIN, PAGES, written_into
from lfdm_ros.bags.mapping import load_mapping
from lfdm_ros.bags.mapping_keys import FORMATS, SOURCE_KEYS
from lfdm_ros.bags.sources import READERS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorials" / "own_vehicle.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_the_tables_are_those_of_the_declarations(name):
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page.count(BEGIN.format(name)) == 1
    assert written_into(page, name) == page, f"python -m lfdm_lab.mapping_page docs/{name}"


def test_every_format_has_a_reader_and_documented_keys():
    assert list(READERS) == list(FORMATS)
    assert {key for form in FORMATS.values() for key in form.keys} <= {key.name for key in SOURCE_KEYS}


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_are_mappings(tmp_path, number):
    (tmp_path / "map.yaml").write_text(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[number])
    assert load_mapping(tmp_path / "map.yaml").topics[0].name == "vehicle/state"
