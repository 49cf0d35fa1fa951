"""Samplers as records: options, abilities, names."""

from dataclasses import replace

import pytest
import yaml

from lfdm_ros.calibration.recipe import load_recipe, sampled_by
from lfdm_ros.errors import InputError
from lfdm_ros.samplers import sampler as samplers
from lfdm_ros.samplers.sampler import METROPOLIS, SAMPLERS, SMC, check_continues, get_sampler, register_sampler


def test_abilities_of_what_ships() -> None:
    assert [name for name, sampler in SAMPLERS.items() if not sampler.exact] == ["least_squares"]
    assert [name for name, sampler in SAMPLERS.items() if sampler.continues] == ["smc"]
    assert [name for name, sampler in SAMPLERS.items() if sampler.together] == ["smc"]
    assert samplers.samplers_with("evidence") == "smc"
    check_continues("smc")
    with pytest.raises(InputError, match=r"mine\.yaml: sampler nuts cannot continue a posterior; use smc"):
        check_continues("nuts", "mine.yaml")


def test_options_are_checked() -> None:
    changed = get_sampler("metropolis", {"thin": 5})
    assert (changed.settings, METROPOLIS.settings) == ({"tune": 2000, "thin": 5}, {"tune": 2000, "thin": 20})
    for given, message in (({"steps": 5}, "sampler metropolis has no option 'steps'; it has: tune, thin"),
                           ({"thin": 0}, "from 1 to 10000, found 0"), ({"thin": 1.5}, "a whole number"),
                           ({"thin": "many"}, "finite number")):
        with pytest.raises(InputError, match=message):
            get_sampler("metropolis", given)


def test_a_sampler_whose_package_is_not_there_is_listed_and_refused(monkeypatch) -> None:
    monkeypatch.setitem(SAMPLERS.registered, "far", replace(SMC, name="far", needs=("no_such_package_",)))
    assert "far" in SAMPLERS
    with pytest.raises(InputError, match="pip install no_such_package_"):
        get_sampler("far")


def test_names_are_taken_once(monkeypatch) -> None:
    register_sampler(SMC)  # the same again, as when a module is imported by two ways
    for sampler, message in ((replace(SMC, description="another"), "'smc' is registered already"), (replace(SMC, name="s m c"), "no name")):
        with pytest.raises(InputError, match=message):
            register_sampler(sampler)


def test_a_recipe_names_its_sampler_with_options(recipe_file) -> None:
    text = yaml.safe_load(recipe_file.read_text())
    recipe_file.write_text(yaml.safe_dump({**text, "sampler": {"name": "smc", "final_steps": 80}}))
    recipe = load_recipe(recipe_file)
    assert (recipe.sampler, recipe.options) == ("smc", {"final_steps": 80})
    # What is given replaces what the recipe says of the same sampler, and only of the same.
    assert sampled_by(recipe, None, {"steps": 5}).options == {"final_steps": 80, "steps": 5}
    assert sampled_by(recipe, "nuts", None).options == {}
    for entry, message in (({"name": "smc", "thin": 3}, "has no option 'thin'"), ({"steps": 3}, "sampler.name: expected a text"),
                           ("gibbs", r"sampler: sampler 'gibbs' is unknown; choose one of: smc, nuts")):
        recipe_file.write_text(yaml.safe_dump({**text, "sampler": entry}))
        with pytest.raises(InputError, match=message):
            load_recipe(recipe_file)
