"""report.html: stands alone, says in order what a reader asks, and survives samplers and runs that lack something."""

import re

import pytest
from small_problem import RECIPE

from lfdm_ros.calibration import calibrate, load_recipe

SECTIONS = ("What was learned", "How sure this is", "What could not be learned, and what to drive next", "Does the model fit?",
            "Are the errors noise?", "Do stages and recordings agree with each other?", "Evidence: stage longitudinal",
            "Pairs of parameters", "Where this comes from")
DAMPING = """
      roll_damping_front: {prior: uniform, lower: 100, upper: 15000, unit: N*m*s/rad}
      roll_damping_rear: {prior: uniform, lower: 100, upper: 15000, unit: N*m*s/rad}"""


@pytest.fixture(scope="module")
def small(bags, tmp_path_factory):
    """The small problem with a pair that cannot be told apart, by least squares: directory and summary."""
    folder = tmp_path_factory.mktemp("report")
    rear = "cornering_stiffness_rear: {prior: uniform, lower: 20, upper: 90, unit: kN/rad}"
    (folder / "small.yaml").write_text(RECIPE.replace(rear, rear + DAMPING))
    summary = calibrate(load_recipe(folder / "small.yaml"), list(bags.values()), folder / "out", draws=100, chains=2,
                        sampler="least_squares")
    return folder / "out", summary


def test_sections_in_the_order_that_a_reader_asks(small):
    page = (small[0] / "report.html").read_text()
    places = [page.index(section) for section in SECTIONS]
    assert places == sorted(places)
    assert "Log evidence" not in page  # the sampler gives none
    assert [stage["log_evidence"] for stage in small[1]["stages"]] == [None, None]


def test_stands_alone_and_is_small(small):
    page = (small[0] / "report.html").read_text()
    assert len(page) < 2_000_000
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert "<script" not in page
    assert page.count("data:image/png;base64,") >= 12


def test_says_in_words_what_was_learned_and_what_not(small):
    directory, summary = small
    page = (directory / "report.html").read_text()
    row = summary["stages"][0]["parameters"]["longitudinal_stiffness"]
    assert re.search(r"longitudinal stiffness \(longitudinal_stiffness\)</td><td>\d+ ± \d+</td><td>N</td><td>\d+ times narrower</td>", page)
    assert row["sd_over_prior_sd"] < 0.1
    assert "well known" in page
    assert "that a bell curve around the optimum describes the uncertainty" in page
    told = [group for group in summary["stages"][1]["identifiability"]["untold"] if "roll_damping_front" in group["members"]]
    assert told
    assert told[0]["text"] in page.replace("&#x27;", "'")
    assert any("roll damping" in text for text in summary["warnings"])


def test_says_where_it_comes_from(small):
    directory, summary = small
    page = (directory / "report.html").read_text()
    for recording in summary["recordings"]:
        assert recording["sha256"] in page
    assert "median: 50, log_sd: 0.4" in page  # the recipe's text
    assert "Seed 3" in page
