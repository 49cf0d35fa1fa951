"""What is known of the friction of the ground, as grid_map_msgs/GridMap: its layers, and what is taken of such a map.

    friction_mean          median of the friction
    friction_latent_mean   mean of its latent value
    friction_latent_sd     standard deviation of that
    friction_ice, friction_dry   least and largest friction that there may be: friction = ice + (dry - ice) / (1 + exp(-latent)); everywhere
                           the same
    friction_latent_draw_00 ...  samples of the latent field, each as likely as the next: of neighbouring places together
"""

from __future__ import annotations

import numpy as np
from grid_map_msgs.msg import GridMap

from lfdm_ros.bounds import FRAME, MALFORMED, NOT_FINITE, Refused
from lfdm_ros.errors import InputError
from lfdm_ros.ground import FrictionLink, Grid
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.ros.grid_map import grid_map_message, read_grid_map

MEDIAN, MEAN, SD, ICE, DRY, DRAW = (
    "friction_mean", "friction_latent_mean", "friction_latent_sd", "friction_ice", "friction_dry", "friction_latent_draw_")
LARGEST = 50.0  # of a latent value: the link's own ends are reached long before


def known_message(known: FrictionPosteriorMap, frame: str, stamp_ns: int) -> GridMap:
    """The map; stamp: up to which the vehicle's drive is in it [ns]."""
    everywhere = np.ones(known.grid.shape)
    return grid_map_message(known.grid, {
        MEDIAN: known.link.friction(known.mean), MEAN: known.mean, SD: known.sd,
        ICE: known.link.ice * everywhere, DRY: known.link.dry * everywhere,
        **{f"{DRAW}{i:02d}": one for i, one in enumerate(known.draws)}}, frame, stamp_ns)


def read_known(message: GridMap, frame: str) -> FrictionPosteriorMap:
    """What a map says is known, in the frame of the vehicle's states.

    Raises:
        Refused: as `read_grid_map`, another frame, a layer that is not there or has holes, or values that no friction has.
    """
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
