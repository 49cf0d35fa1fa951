"""Maps as GridMap: cell by cell as that type defines them, there and back, and what is refused."""

import copy
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy")

from grid_map_msgs.msg import GridMap
from rclpy.serialization import deserialize_message, serialize_message

from lfdm_ros.bounds import Refused
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.grid_map import read_grid_map
from lfdm_ros.ros.grid_map import grid_map_message

GRID = Grid(-10.0, 5.0, 0.5, 6, 4)
LAYERS = {"friction_mean": np.arange(24.0).reshape(4, 6), "friction_sd": np.full((4, 6), np.nan)}


@pytest.fixture
def message() -> Any:
    return grid_map_message(GRID, LAYERS, "map", 3_500_000_000)


def position(message: Any, row: int, column: int) -> tuple[float, float]:
    """Of a cell, by grid_map's definition: the first has the largest x and y, rows go against x, columns against y."""
    i = message.info
    return (i.pose.position.x + 0.5 * i.length_x - (row + 0.5) * i.resolution,
            i.pose.position.y + 0.5 * i.length_y - (column + 0.5) * i.resolution)


def test_cells_lie_where_grid_map_looks_for_them(message: Any) -> None:
    values = message.data[0]
    rows, columns = values.layout.dim[1].size, values.layout.dim[0].size
    assert (values.layout.dim[0].label, values.layout.dim[1].label) == ("column_index", "row_index")
    assert (values.layout.dim[0].stride, values.layout.dim[1].stride) == (rows * columns, rows)
    for row in range(rows):
        for column in range(columns):
            x, y = position(message, row, column)
            assert values.data[column * rows + row] == LAYERS["friction_mean"][round((y - GRID.y) / 0.5), round((x - GRID.x) / 0.5)]
    assert message.header.stamp.sec == 3 and message.header.frame_id == "map"


def test_there_and_back(message: Any) -> None:
    grid, layers = read_grid_map(deserialize_message(serialize_message(message), GridMap))
    assert grid == GRID
    for name, values in LAYERS.items():
        np.testing.assert_array_equal(layers[name], values)


def test_a_map_that_was_moved_along(message: Any) -> None:
    """Its buffer begins at some row and column, as that of a map that follows its robot does."""
    shifted = copy.deepcopy(message)
    shifted.outer_start_index, shifted.inner_start_index = 2, 3
    for layer in shifted.data:
        cells = np.array(layer.data).reshape(4, 6)  # columns, rows
        layer.data = np.roll(cells, (3, 2), axis=(0, 1)).ravel().tolist()
    np.testing.assert_array_equal(read_grid_map(shifted)[1]["friction_mean"], LAYERS["friction_mean"])


def test_rows_first(message: Any) -> None:
    layer = message.data[0]
    layer.data = np.array(layer.data).reshape(4, 6).T.ravel().tolist()
    layer.layout.dim[0].label, layer.layout.dim[1].label = "row_index", "column_index"
    np.testing.assert_array_equal(read_grid_map(message)[1]["friction_mean"], LAYERS["friction_mean"])


def test_what_is_no_map_is_refused(message: Any) -> None:
    def changed(change: Any) -> Any:
        other = copy.deepcopy(message)
        change(other)
        return other

    def turn(m: Any) -> None:
        m.info.pose.orientation.z, m.info.pose.orientation.w = 0.1, 0.995

    for change, text in (
            (lambda m: setattr(m.info, "resolution", float("nan")), "resolution"),
            (lambda m: setattr(m.info, "length_x", -1.0), "length_x"), (lambda m: setattr(m.info, "resolution", 1e-6), "cells"),
            (lambda m: setattr(m.info.pose.position, "x", float("inf")), "middle"), (turn, "turned"),
            (lambda m: m.layers.append("soil"), "names"), (lambda m: setattr(m, "outer_start_index", 6), "begins"),
            (lambda m: setattr(m.data[0], "data", [1.0]), "6 x 4"), (lambda m: m.data[0].layout.dim.clear(), "no order"),
            (lambda m: setattr(m.info, "resolution", 4.0), "nodes")):
        with pytest.raises(Refused, match=text):
            read_grid_map(changed(change))
