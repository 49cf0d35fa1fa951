"""Maps of the ground as grid_map_msgs/GridMap; format and reader: `lfdm_ros.ground.grid_map`."""

from array import array
from collections.abc import Mapping

import numpy as np
from grid_map_msgs.msg import GridMap
from std_msgs.msg import Float32MultiArray, MultiArrayDimension

from lfdm_ros.bounds import FRAME, MALFORMED, NOT_FINITE, Refused
from lfdm_ros.errors import InputError
from lfdm_ros.ground import FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.grid_map import COLUMNS, DRAW, DRY, ICE, MEAN, MEDIAN, ROWS, SD, read_grid_map
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.ros.messages import set_stamp

LARGEST = 50.0  # latent value; the link saturates far below


def grid_map_message(grid: Grid, layers: Mapping[str, np.ndarray], frame: str, stamp_ns: int) -> GridMap:
    """Makes the message of layers (ny, nx) at the nodes of a grid, the cell centres of the message; NaN: unknown."""
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
        layer.layout.dim = [MultiArrayDimension(label=COLUMNS, size=grid.ny, stride=grid.nx * grid.ny),
                            MultiArrayDimension(label=ROWS, size=grid.nx, stride=grid.nx)]
        flat = np.ascontiguousarray(np.asarray(values)[::-1, ::-1], np.float32)
        layer.data = array("f", flat.tobytes())
        message.data.append(layer)
    return message


def friction_message(friction_map: FrictionPosteriorMap, frame: str, stamp_ns: int) -> GridMap:
    """Makes the message of a map; stamp_ns: time up to which the vehicle's drive is in it [ns]."""
    everywhere = np.ones(friction_map.grid.shape)
    return grid_map_message(friction_map.grid, {
        MEDIAN: friction_map.link.friction(friction_map.mean), MEAN: friction_map.mean, SD: friction_map.sd,
        ICE: friction_map.link.ice * everywhere, DRY: friction_map.link.dry * everywhere,
        **{f"{DRAW}{i:02d}": one for i, one in enumerate(friction_map.draws)}}, frame, stamp_ns)


def read_friction(message: GridMap, frame: str) -> FrictionPosteriorMap:
    """Reads a friction map in the frame of the vehicle's states. Raises Refused: as `read_grid_map`, another frame, a layer that is missing
    or has holes, or impossible friction values."""
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
        fault = "is a hole" if value != value else f"is {value:g}"
        raise Refused(f"map: {name} at ({grid.xs[column]:g}, {grid.ys[row]:g}) m {fault}; give a value from {-LARGEST:g} to {LARGEST:g} "
                      "everywhere", MALFORMED if np.isfinite(value) else NOT_FINITE)
