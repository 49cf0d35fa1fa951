"""The ground that a node's vehicle is on: by its parameters, and as maps on topics."""

import json
from typing import Any

import numpy as np
from grid_map_msgs.msg import GridMap
from nav_msgs.msg import OccupancyGrid
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

from lfdm_ros.bags.grounds import find_ground
from lfdm_ros.ground import FrictionField
from lfdm_ros.ground.ground_file import GroundDescription
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.ros import qos
from lfdm_ros.ros.endpoints import Endpoint, When, given, publishes, subscribes, unless
from lfdm_ros.ros.grid_map import grid_map_message
from lfdm_ros.ros.markers import Picture
from lfdm_ros.ros.messages import ODOM_FRAME, set_stamp
from lfdm_ros.ros.parameters import Parameter, seed_of
from lfdm_ros.vehicles import Vehicle

GROUND = Parameter("ground", "", "name of a ground in config/grounds, a file, or a bag recorded on one: friction, soil and heights by "
                                 "place; empty: a level road")
GROUND_SEED = Parameter("ground_seed", -1, "seed of the ground's random field; -1: that of its file", -1, 2**31 - 1)
LEARN_GROUND = Parameter("learn_ground", False, "plan with the friction that a ground_learner publishes on ground/known, not the file's")
FRICTION_MAP = "ground/known"
_DRAWN = 60
_DRY, _ICE = np.array([0.35, 0.35, 0.35, 0.5]), np.array([0.95, 0.97, 1.0, 0.5])
_SOILS = np.array([[0.55, 0.42, 0.25, 0.5], [0.75, 0.65, 0.40, 0.5], [0.40, 0.30, 0.20, 0.5], [0.60, 0.55, 0.45, 0.5]])
SUBSCRIBES_FRICTION_MAP = subscribes(FRICTION_MAP, GridMap, qos.LATCHED, "friction as it is learned", when=given("learn_ground"))


def ground_of(node: Any) -> GroundDescription | None:
    """Returns the ground that a node's parameters name; None: none is given. Raises InputError: as `find_ground`."""
    name = node.value("ground")
    return find_ground(name, seed_of(node.value("ground_seed"))) if name else None


def planned_on(node: Any, vehicle: Vehicle, draws: int = 0) -> VehicleOnGround:
    """Returns the vehicle on the ground of a node's parameters, as planners know it: without its friction where that is to be learned.
    Raises InputError: as `ground_of`."""
    ground = ground_of(node)
    if node.value("learn_ground"):
        return VehicleOnGround.learning(vehicle, ground)
    return VehicleOnGround(vehicle, ground, use_median=True, draws=draws)


def ground_endpoints(when: When) -> tuple[Endpoint, ...]:
    on = when & unless("ground", "")
    return (publishes("ground/document", String, qos.LATCHED, "its description as JSON, for replays", when=on),
            publishes("ground/map", GridMap, qos.LATCHED, "friction by place: its median, mean and deviation of its latent value", when=on),
            publishes("ground/friction", OccupancyGrid, qos.LATCHED, "the same for RViz: 100 is the minimum friction of the map", when=on),
            publishes("ground/markers", MarkerArray, qos.LATCHED, "heights, friction from dry, grey, to ice, white, and soils, for RViz",
                      when=on))


class GroundTopics:
    """Publishers of a vehicle's ground."""

    def __init__(self, node: Any, ground: GroundDescription | None) -> None:
        self._ground, self._document = ground, node.publisher("ground/document")
        self._map, self._picture = node.publisher("ground/map"), node.publisher("ground/friction")
        self._markers = node.publisher("ground/markers")

    def publish(self) -> None:
        """Publishes the ground, once, when the node is active."""
        if self._ground is None:
            return
        self._document.publish(String(data=json.dumps(self._ground.document)))
        field, grid = self._ground.field, self._ground.field.grid
        friction = field.link.friction(field.latent)
        soils, heights, zeros = self._ground.soils, self._ground.heights, np.zeros(grid.shape)
        self._map.publish(grid_map_message(grid, {
            "friction_mean": friction, "friction_latent_mean": field.latent, "friction_latent_sd": zeros,
            "elevation": zeros if heights is None else heights.heights,
            **({} if soils is None else {"soil": soils.number_at(*np.meshgrid(grid.xs, grid.ys)).astype(float)})}, ODOM_FRAME, 0))
        self._picture.publish(_occupancy(field, friction))
        picture = Picture(ODOM_FRAME, 0)
        _draw(picture, self._ground)
        self._markers.publish(picture.array)


def _draw(picture: Picture, ground: GroundDescription) -> None:
    """Draws the ground as a surface of at most `_DRAWN` nodes a side."""
    grid = ground.field.grid
    rows, columns = (np.unique(np.linspace(0, n - 1, min(n, _DRAWN)).astype(int)) for n in grid.shape)
    nodes = np.ix_(rows, columns)
    friction = ground.field.link.friction(ground.field.latent[nodes])
    slippery = np.clip(1.0 - friction, 0.0, 1.0)[..., None]
    colours = (1.0 - slippery) * _DRY + slippery * _ICE
    if ground.soils is not None:
        number = ground.soils.number_at(*np.meshgrid(grid.xs[columns], grid.ys[rows]))
        colours = _SOILS[number % len(_SOILS)]
    heights = np.zeros(friction.shape) if ground.heights is None else ground.heights.heights[nodes]
    picture.surface("ground", grid.xs[columns], grid.ys[rows], heights, colours)


def _occupancy(field: FrictionField, friction: np.ndarray) -> OccupancyGrid:
    """Makes an occupancy grid in which slippery cells appear occupied."""
    grid, message = field.grid, OccupancyGrid()
    message.header.frame_id = ODOM_FRAME
    set_stamp(message.header.stamp, 0)
    info = message.info
    info.resolution, info.width, info.height = grid.spacing, grid.nx, grid.ny
    info.origin.position.x, info.origin.position.y = grid.x - 0.5 * grid.spacing, grid.y - 0.5 * grid.spacing
    info.origin.orientation.w = 1.0
    highest, lowest = friction.max(), friction.min()
    message.data = np.round(100.0 * (highest - friction) / max(highest - lowest, 1e-9)).astype(np.int8).ravel().tolist()
    return message
