"""Maps of the ground from grid_map_msgs/GridMap messages of rclpy or of a bag, without ROS.

Arrays here have rows along +y and columns along +x; a GridMap's rows go along -x and its columns along -y, in column-major order.

Layers of the friction of the ground:

    friction_mean          median of the friction
    friction_latent_mean   mean of its latent value
    friction_latent_sd     standard deviation of that
    friction_ice, friction_dry   limits of the friction, constant over the map: friction = ice + (dry - ice) / (1 + exp(-latent))
    friction_latent_draw_00 ...  equally likely joint samples of the latent field
"""

import math
from typing import Any

import numpy as np

from lfdm_ros.bounds import FRAME, MALFORMED, NOT_FINITE, TOO_MANY, Refused, require_all
from lfdm_ros.errors import InputError, quote
from lfdm_ros.ground.grid import MAX_NODES, Grid

COLUMNS, ROWS = "column_index", "row_index"
_MAX_LAYERS = 64
_MAX_TURN = 1e-6  # norm of the quaternion's vector part; above, the grid is rotated
MEDIAN, MEAN, SD, ICE, DRY, DRAW = (
    "friction_mean", "friction_latent_mean", "friction_latent_sd", "friction_ice", "friction_dry", "friction_latent_draw_")
HEIGHT = "elevation"


def read_grid_map(message: Any) -> tuple[Grid, dict[str, np.ndarray]]:
    """Reads the grid of a message's cells, and its layers (ny, nx) by name, with the circular buffer unrolled. Raises Refused: inconsistent
    sizes, a rotated or too large grid, or a geometry that is not finite."""
    info = message.info
    for name, value in (("resolution", info.resolution), ("length_x", info.length_x), ("length_y", info.length_y)):
        if not (math.isfinite(value) and value > 0.0):
            raise Refused(f"map: {name} is {value:g} m, not above 0", NOT_FINITE if not math.isfinite(value) else MALFORMED)
    middle, q = info.pose.position, info.pose.orientation
    require_all({"x": middle.x, "y": middle.y}, ("x", "y"), "map: middle: ")
    turn = math.hypot(q.x, q.y, q.z)
    if not turn <= _MAX_TURN:
        raise Refused(f"map: turned by {2.0 * math.asin(min(turn, 1.0)):.3g} rad; give it along the axes of its frame", FRAME)
    nx, ny = (round(length / info.resolution) for length in (info.length_x, info.length_y))
    if max(nx, ny) > MAX_NODES or len(message.layers) > _MAX_LAYERS:
        raise Refused(f"map: {nx} x {ny} cells in {len(message.layers)} layers; at most {MAX_NODES} a side and {_MAX_LAYERS} are taken",
                      TOO_MANY)
    if len(message.layers) != len(message.data):
        raise Refused(f"map: {len(message.layers)} names for {len(message.data)} layers", MALFORMED)
    if message.outer_start_index >= max(nx, 1) or message.inner_start_index >= max(ny, 1):
        raise Refused(f"map: begins at row {message.outer_start_index} and column {message.inner_start_index} of {nx} x {ny}", MALFORMED)
    try:
        grid = Grid(middle.x - 0.5 * (nx - 1) * info.resolution, middle.y - 0.5 * (ny - 1) * info.resolution, info.resolution, nx, ny)
    except InputError as error:
        raise Refused(f"map: {error}", MALFORMED) from None
    return grid, {name: _layer(name, data, message, nx, ny) for name, data in zip(message.layers, message.data)}


def _layer(name: str, data: Any, message: Any, nx: int, ny: int) -> np.ndarray:
    labels = [dim.label for dim in data.layout.dim]
    values = np.asarray(data.data, float)
    if len(values) != nx * ny or sorted(labels) != sorted((COLUMNS, ROWS)):
        order = ", ".join(map(quote, labels)) or "no order"
        raise Refused(f"map: layer {quote(name)} has {len(values)} values, in {order}; {nx} x {ny} in {COLUMNS} and {ROWS} are needed",
                      MALFORMED)
    cells = values.reshape(ny, nx) if labels[0] == COLUMNS else values.reshape(nx, ny).T  # (columns, rows)
    cells = np.roll(cells, (-message.inner_start_index, -message.outer_start_index), axis=(0, 1))
    return cells[::-1, ::-1]
