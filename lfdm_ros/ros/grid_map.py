"""Maps of the ground as grid_map_msgs/GridMap and back.

A map of ours has rows along y and columns along x, both rising; a GridMap's rows go against x, its columns against y, column after column.

Layers of the friction of the ground:

    friction_mean          median of the friction
    friction_latent_mean   mean of its latent value
    friction_latent_sd     standard deviation of that
    friction_ice, friction_dry   limits of the friction, everywhere the same: friction = ice + (dry - ice) / (1 + exp(-latent))
    friction_latent_draw_00 ...  samples of the latent field, all equally likely, jointly over neighbouring places
"""

import math
from array import array
from collections.abc import Mapping

import numpy as np
from grid_map_msgs.msg import GridMap
from std_msgs.msg import Float32MultiArray, MultiArrayDimension

from lfdm_ros.bounds import FRAME, MALFORMED, NOT_FINITE, TOO_MANY, Refused, require_all
from lfdm_ros.errors import InputError, quote
from lfdm_ros.ground import FrictionLink
from lfdm_ros.ground.grid import MAX_NODES, Grid
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.ros.messages import set_stamp

_COLUMNS, _ROWS = "column_index", "row_index"
_MOST_LAYERS = 64
_TURNED = 1e-6  # [rad] more is another grid
MEDIAN, MEAN, SD, ICE, DRY, DRAW = (
    "friction_mean", "friction_latent_mean", "friction_latent_sd", "friction_ice", "friction_dry", "friction_latent_draw_")
LARGEST = 50.0  # of a latent value: the link's own ends are reached long before


def grid_map_message(grid: Grid, layers: Mapping[str, np.ndarray], frame: str, stamp_ns: int) -> GridMap:
    """Makes the message of layers (ny, nx) at the nodes of a grid, which are the middles of the message's cells; NaN: not known."""
    message = GridMap(layers=list(layers), basic_layers=[])
    message.header.frame_id = frame
    set_stamp(message.header.stamp, stamp_ns)
    info = message.info
    info.resolution, info.length_x, info.length_y = grid.spacing, grid.nx * grid.spacing, grid.ny * grid.spacing
    info.pose.position.x = grid.x + 0.5 * (grid.nx - 1) * grid.spacing
    info.pose.position.y = grid.y + 0.5 * (grid.ny - 1) * grid.spacing
    info.pose.orientation.w = 1.0
    for values in layers.values():
        layer = Float32MultiArray()
        layer.layout.dim = [MultiArrayDimension(label=_COLUMNS, size=grid.ny, stride=grid.nx * grid.ny),
                            MultiArrayDimension(label=_ROWS, size=grid.nx, stride=grid.nx)]
        flat = np.ascontiguousarray(np.asarray(values)[::-1, ::-1], np.float32)
        layer.data = array("f", flat.tobytes())
        message.data.append(layer)
    return message


def read_grid_map(message: GridMap) -> tuple[Grid, dict[str, np.ndarray]]:
    """Returns the grid of a message's cells, and its layers (ny, nx) by name; a shifted map is turned back. Raises Refused: parts that do
    not fit together, a turned grid, one that is too large, or numbers that are not finite where they must be."""
    info = message.info
    for name, value in (("resolution", info.resolution), ("length_x", info.length_x), ("length_y", info.length_y)):
        if not (math.isfinite(value) and value > 0.0):
            raise Refused(f"map: {name} is {value:g} m, not above 0", NOT_FINITE if not math.isfinite(value) else MALFORMED)
    middle, q = info.pose.position, info.pose.orientation
    require_all({"x": middle.x, "y": middle.y}, ("x", "y"), "map: middle: ")
    turn = math.hypot(q.x, q.y, q.z)
    if not turn <= _TURNED:
        raise Refused(f"map: turned by {2.0 * math.asin(min(turn, 1.0)):.3g} rad; give it along the axes of its frame", FRAME)
    nx, ny = (round(length / info.resolution) for length in (info.length_x, info.length_y))
    if max(nx, ny) > MAX_NODES or len(message.layers) > _MOST_LAYERS:
        raise Refused(f"map: {nx} x {ny} cells in {len(message.layers)} layers; at most {MAX_NODES} a side and {_MOST_LAYERS} are taken",
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


def _layer(name: str, data: Float32MultiArray, message: GridMap, nx: int, ny: int) -> np.ndarray:
    labels = [dim.label for dim in data.layout.dim]
    values = np.asarray(data.data, float)
    if len(values) != nx * ny or sorted(labels) != sorted((_COLUMNS, _ROWS)):
        order = ", ".join(map(quote, labels)) or "no order"
        raise Refused(f"map: layer {quote(name)} has {len(values)} values, in {order}; {nx} x {ny} in {_COLUMNS} and {_ROWS} are needed",
                      MALFORMED)
    cells = values.reshape(ny, nx) if labels[0] == _COLUMNS else values.reshape(nx, ny).T  # (columns, rows)
    cells = np.roll(cells, (-message.inner_start_index, -message.outer_start_index), axis=(0, 1))
    return cells[::-1, ::-1]


def known_message(known: FrictionPosteriorMap, frame: str, stamp_ns: int) -> GridMap:
    """Makes the message of a map; stamp_ns: time up to which the vehicle's drive is in it [ns]."""
    everywhere = np.ones(known.grid.shape)
    return grid_map_message(known.grid, {
        MEDIAN: known.link.friction(known.mean), MEAN: known.mean, SD: known.sd,
        ICE: known.link.ice * everywhere, DRY: known.link.dry * everywhere,
        **{f"{DRAW}{i:02d}": one for i, one in enumerate(known.draws)}}, frame, stamp_ns)


def read_known(message: GridMap, frame: str) -> FrictionPosteriorMap:
    """Reads the friction that a map has, in the frame of the vehicle's states. Raises Refused: as `read_grid_map`, another frame, a layer
    that is not there or has holes, or values that no friction has."""
    if message.header.frame_id != frame:
        raise Refused(f"map: in frame '{message.header.frame_id}', the states are in '{frame}'"[:200], FRAME)
    grid, layers = read_grid_map(message)
    for name in (MEAN, SD, ICE, DRY):
        if name not in layers:
            raise Refused(f"map: there is no layer {name}", MALFORMED)
    draws = sorted(name for name in layers if name.startswith(DRAW))
    for name in (MEAN, SD, ICE, DRY, *draws):
        _check(name, layers[name], grid)
    ice, dry = layers[ICE], layers[DRY]
    if np.ptp(ice) > 0.0 or np.ptp(dry) > 0.0:
        raise Refused(f"map: {ICE} and {DRY} are to be the same everywhere", MALFORMED)
    try:
        return FrictionPosteriorMap(grid, FrictionLink(float(ice[0, 0]), float(dry[0, 0])), layers[MEAN], layers[SD],
                             np.array([layers[name] for name in draws]).reshape(-1, *grid.shape))
    except InputError as error:
        raise Refused(f"map: {error}", MALFORMED) from None


def _check(name: str, values: np.ndarray, grid: Grid) -> None:
    wrong = ~(np.abs(values) <= LARGEST)  # true for NaN
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        value = float(values[row, column])
        what = "is a hole" if value != value else f"is {value:g}"
        raise Refused(f"map: {name} at ({grid.xs[column]:g}, {grid.ys[row]:g}) m {what}; give a value from {-LARGEST:g} to {LARGEST:g} "
                      "everywhere", MALFORMED if np.isfinite(value) else NOT_FINITE)
