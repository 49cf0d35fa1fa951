"""Grounds that people write down: what is where, and one line that names file and key for what is no ground."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.soils import load_soil
from lfdm_ros.resources import share_directory

AREA: dict[str, Any] = {"x": [0.0, 20.0], "y": [-5.0, 5.0], "spacing": 0.5}
FIELD: dict[str, Any] = {"ice": 0.1, "dry": 1.0, "alpha_x": 4.0, "alpha_y": 4.0, "sigma_f": 1.5}
PATCH: dict[str, Any] = {"friction": 0.2, "polygon": [[5.0, -2.0], [9.0, -2.0], [9.0, 2.0]]}


@pytest.mark.parametrize("path", sorted((share_directory() / "config" / "grounds").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_ships_is_a_ground(path: Path) -> None:
    ground = load_ground(path.stem)
    assert ground.name == path.stem and ground.field.friction_at(1e6, 1e6) > 0.0


def test_patches_lie_where_they_are_drawn() -> None:
    """Within the triangle, within the circle that lies on it, and beside both; nowhere beyond what the file says."""
    ground = load_ground({"area": AREA, "friction": 0.9,
                          "patches": [PATCH, {"friction": 0.5, "circle": {"x": 8.0, "y": 0.0, "radius": 1.0}}]})
    found = ground.field.friction_at([8.5, 8.0, 5.5, 15.0, -50.0], [-1.5, 0.0, 1.5, 0.0, 0.0])
    np.testing.assert_allclose(found, [0.2, 0.5, 0.9, 0.9, 0.9], rtol=1e-3)
    x, y = np.meshgrid(np.linspace(0.0, 20.0, 301), np.linspace(-5.0, 5.0, 151))
    everywhere = ground.field.friction_at(x, y)
    assert everywhere.min() > 0.19 and everywhere.max() < 0.92
    assert ground.median is ground.field and not ground.sd.any() and ground.belief is None and ground.drawn(3) == [ground.field]


def test_of_a_random_field_only_what_was_seen_is_known() -> None:
    document = {"area": AREA, "friction": FIELD, "seed": 3, "observations": [{"x": 4.0, "y": 0.0, "friction": 0.3, "noise": 0.01}],
                "patches": [{"friction": 0.8, "circle": {"x": 18.0, "y": 0.0, "radius": 2.0}}]}
    ground = load_ground(document)
    for field in (ground.field, ground.median):
        assert field.friction_at(4.0, 0.0) == pytest.approx(0.3, abs=0.01)
        assert field.friction_at(18.0, 0.0) == pytest.approx(0.8, abs=0.01)
    at = {place: ground.sd[10, round(place / 0.5)] for place in (4.0, 12.0, 18.0)}
    assert at[4.0] < 0.02 and at[12.0] > 1.4 and at[18.0] == 0.0
    fields = ground.drawn(40)
    there = np.array([[one.friction_at(x, 0.0) for x in (4.0, 12.0, 18.0)] for one in fields])
    assert there[:, 0].std() < 0.02 and there[:, 1].std() > 0.15 and np.ptp(there[:, 2]) < 1e-12
    again, other = load_ground(document), load_ground(document, seed=4)
    np.testing.assert_array_equal(ground.field.latent, again.field.latent)
    np.testing.assert_array_equal(ground.median.latent, other.median.latent)
    assert np.abs(ground.field.latent - other.field.latent).max() > 1.0


@pytest.mark.parametrize(("change", "text"), [
    ({"frictoin": 1.0}, "frictoin"), ({"area": {"x": [0.0, 20.0], "y": [0.0, 10.0]}}, "spacing"),
    ({"area": AREA | {"x": [3.0]}}, "area: x"),
    ({"area": AREA | {"y": [5.0, -5.0]}}, "area: y: 5 m is not below"), ({"area": AREA | {"spacing": 0.001}}, "area: n[xy]"),
    ({"area": AREA | {"spacing": float("nan")}}, "spacing"), ({"friction": 0.0}, "friction: 0"), ({"friction": float("inf")}, "friction"),
    ({"friction": FIELD | {"ice": 1.1}}, "friction: ice"), ({"friction": FIELD | {"gamma": 0.5}}, "friction: gamma"),
    ({"friction": FIELD | {"alpha": 3.0}}, "alpha"), ({"friction": FIELD | {"sigma_f": -1.0}}, "friction: sigma_f"),
    ({"seed": 1}, "seed"), ({"observations": []}, "observations"), ({"friction": FIELD, "seed": -1}, "seed"),
    ({"friction": FIELD, "observations": [{"x": 1.0, "y": 0.0, "friction": 1.2}]}, r"observations\[0\]: friction"),
    ({"friction": FIELD, "observations": [{"x": 99.0, "y": 0.0, "friction": 0.5}]}, "not on the map"),
    ({"friction": FIELD, "patches": [PATCH | {"friction": 1.5}]}, r"patches\[0\]: friction"),
    ({"patches": [{"friction": 0.5}]}, "either circle or polygon"), ({"patches": [PATCH | {"polygon": [[0.0, 0.0]]}]}, "three corners"),
    ({"patches": [{"friction": 0.5, "circle": {"x": 5.0, "y": 0.0, "radius": 0.0}}]}, "radius"),
    ({"patches": [{"friction": 0.5, "circle": {"x": 500.0, "y": 0.0, "radius": 1.0}}]}, "covers no node"),
])
def test_what_is_no_ground_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text) as caught:
        load_ground({"area": AREA, "friction": 0.9} | change)
    assert "\n" not in str(caught.value)


def test_soils_and_heights_lie_where_they_are_drawn() -> None:
    ground = load_ground({"area": AREA, "friction": 0.9, "soil": "lete_sand", "soils": [{"soil": "dry_sand", "polygon": PATCH["polygon"]}],
                          "heights": {"rise_x": 0.1, "bumps": [{"x": 10.0, "y": 0.0, "radius": 3.0, "height": 0.3}]}})
    assert ground.soils is not None and ground.heights is not None
    assert [ground.soils.at(*place).name for place in ((8.5, -1.5), (15.0, 0.0), (-500.0, 9.0))] == ["dry_sand", "lete_sand", "lete_sand"]
    height, slope, _ = ground.heights.at([5.0, 10.0, 11.5], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(height, [0.5, 1.3, 1.15 + 0.15], atol=2e-3)
    np.testing.assert_allclose(slope[:2], [0.1, 0.1], atol=5e-3)
    plain = load_ground({"area": AREA, "friction": 0.9})
    assert plain.soils is None and plain.heights is None


@pytest.mark.parametrize(("changes", "message"), [
    ({"soil": "mud"}, "no soils file 'mud'"), ({"soil": 3}, "ground: soil: expected a text, found 3"),
    ({"soils": []}, "ground: soils: give the soil outside of them as well"),
    ({"soil": "lunar", "soils": [{"soil": "lunar"}]}, r"ground: soils\[0\]: missing key 'polygon'"),
    ({"soil": "lunar", "soils": [{"soil": "lunar", "polygon": [[0, 0], [1, 1]]}]},
     r"ground: soils\[0\]: polygon: give at least three corners"),
    ({"heights": {"rise": 1}}, "ground: heights: unknown key 'rise'"),
    ({"heights": {"rise_x": float("nan")}}, "ground: heights: rise_x: expected a finite number"),
    ({"heights": {"values": [[0.0, 1.0], [0.0, 1.0]]}}, r"ground: heights: values: give \d+ lines of \d+ numbers"),
    ({"soil": {**load_soil("lunar").document, "cohesion": {"value": -5.0, "unit": "Pa"}}}, r"ground: soil: cohesion = -5 .* is outside"),
    ({"soil": {"name": "mine"}}, "ground: soil: missing key 'frictional_modulus'"),
    ({"heights": {"bumps": [{"x": 0, "y": 0, "radius": 0.6, "height": 1}]}}, r"heights: bumps\[0\]: radius: 0.6 m is less than two"),
])
def test_wrong_soils_and_heights_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_ground({"area": AREA, "friction": 0.9, **changes})


@pytest.mark.parametrize("hole", [None, float("nan")])
def test_heights_at_the_nodes_have_no_holes(hole: Any) -> None:
    """A table of heights lies on the plane and under the bumps; a hole in it is named by its place."""
    area = {"x": [0.0, 8.0], "y": [0.0, 6.0], "spacing": 2.0}
    table = [[0.1 * column + row for column in range(5)] for row in range(4)]
    ground = load_ground({"area": area, "friction": 1.0, "heights": {"rise_x": 0.5, "values": table}})
    assert ground.heights is not None
    np.testing.assert_allclose(ground.heights.heights[2], 2.0 + 0.1 * np.arange(5) + 0.5 * np.arange(0.0, 9.0, 2.0))
    table[2][3] = hole
    with pytest.raises(InputError, match=r"^ground: heights: values: a hole in row 2, column 3, at \(6, 4\); fill it before$"):
        load_ground({"area": area, "friction": 1.0, "heights": {"values": table}})


def test_a_start_or_way_off_the_map_is_named() -> None:
    ground = load_ground({"area": {"x": [0.0, 8.0], "y": [0.0, 6.0], "spacing": 2.0}, "friction": 1.0, "name": "small"})
    ground.require_start(8.0, 6.0)
    with pytest.raises(InputError, match=r"^ground small: area: the vehicle begins at \(8\.5, 1\), off the map of x 0 to 8 m and y 0 to"):
        ground.require_start(8.5, 1.0)
    assert ground.left_at(None) == ground.left_at(np.array([[0.0, 0.0], [8.0, 6.0]])) == ""
    assert "leaves the map of x 0 to 8 m and y 0 to 6 m at (9, 2)" in ground.left_at(np.array([[0.0, 0.0], [9.0, 2.0], [20.0, 2.0]]))
