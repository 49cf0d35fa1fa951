"""Camera: pinhole with `plumb_bob` distortion, rendered by the rasteriser; images and intrinsics as ROS messages and JPEG."""

import io
import math
from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, setting
from lfdm_ros.sensors.ground_rays import height, turned
from lfdm_ros.sensors.rasteriser import SIDE
from lfdm_ros.sensors.sensor import SensorMessage, SensorScene, SensorType, VehicleView, register_sensor
from lfdm_ros.simulation.world import OBSTACLE_KINDS, Circle
from lfdm_ros.vehicles import Mount

_DRY, _ICE, _LINE = np.array([104.0, 104.0, 102.0]), np.array([212.0, 222.0, 232.0]), np.array([232.0, 230.0, 220.0])
_SOILS = np.array([[140.0, 107.0, 64.0], [186.0, 160.0, 104.0], [104.0, 78.0, 52.0], [152.0, 138.0, 114.0]])
_WIDTH = 0.15  # [m] of a painted line
_MIN_CELL, _MAX_CELLS = 0.04, 4_000_000  # [m] side of a cell; number of cells
_MAX_LOOK_UPS = 150_000  # of friction and soil
_SUN = 0.6, 0.8  # as for obstacles
_MARGIN = 2.0  # [m] around the lines
_DARKEST, _LIGHTEST = 24.0, 231.0  # leaves a margin for the grain
_CONTRAST = 16.0  # of the grain


def paint(scene: SensorScene) -> tuple[np.ndarray, np.ndarray]:
    """Computes colours of a scene's ground: friction from dry, grey, to ice, white; soils in browns; lines; hills shaded by slope.

    Returns:
        colours (ny, nx, 3) uint8 of cells; x, y of the centre of the first cell and the spacing (3,) [m].
    """
    corners = [np.reshape(scene.area, (2, 2))] if scene.area else []
    corners += [line + side for line in scene.lines for side in (-_MARGIN, _MARGIN)]
    if not corners:
        return np.full((1, 1, 3), _DRY, np.uint8), np.array([0.0, 0.0, 1.0])
    lower, upper = np.concatenate(corners).min(axis=0), np.concatenate(corners).max(axis=0)
    spacing = max(_MIN_CELL, math.sqrt(float(np.prod(upper - lower)) / _MAX_CELLS))
    coarse = max(1, math.ceil(math.sqrt(float(np.prod(upper - lower)) / _MAX_LOOK_UPS) / spacing))
    nx, ny = (coarse * math.ceil((b - a) / (coarse * spacing) + 1e-9) for a, b in zip(lower, upper))
    x, y = np.meshgrid(*(a + spacing * coarse * (np.arange(n // coarse) + 0.5) for a, n in zip(lower, (nx, ny))))
    colours = np.full((*x.shape, 3), _DRY)
    if scene.soil is not None:
        colours = _SOILS[scene.soil(x, y) % len(_SOILS)]
    elif scene.friction is not None:
        colours = _DRY + np.clip(1.0 - scene.friction(x, y), 0.0, 1.0)[..., None] * (_ICE - _DRY)
    if scene.ground is not None:
        g = scene.ground
        along, across = np.gradient(g.heights, g.spacing)
        j, i = (np.clip(np.rint((v - first) / g.spacing).astype(int), 0, n - 1)
                for v, first, n in ((y, g.y, g.heights.shape[0]), (x, g.x, g.heights.shape[1])))
        colours = colours * np.clip(1.0 + 1.5 * (_SUN[0] * across[j, i] + _SUN[1] * along[j, i]), 0.5, 1.3)[..., None]
    cells = np.clip(colours, _DARKEST, _LIGHTEST).astype(np.uint8).repeat(coarse, axis=0).repeat(coarse, axis=1)
    for line in scene.lines:
        _draw_line(cells, (line - lower) / spacing, _WIDTH / spacing)
    return cells, np.array([*(lower + 0.5 * spacing), spacing])


def _draw_line(cells: np.ndarray, line: np.ndarray, width: float) -> None:
    """Paints the cells within half a width of a line (n, 2), both in cells, at least those on the line."""
    steps = np.diff(line, axis=0)
    lengths = np.hypot(*steps.T)
    steps, starts, lengths = steps[lengths > 0.0], line[:-1][lengths > 0.0], lengths[lengths > 0.0]
    counts = np.ceil(2.0 * lengths).astype(int)
    which = np.repeat(np.arange(len(counts)), counts)
    share = (np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)) / counts[which]
    places = starts[which] + share[:, None] * steps[which]
    normals = np.column_stack([-steps[:, 1], steps[:, 0]])[which] / lengths[which, None]
    half = max(0.5 * (width - 1.0), 0.0)
    for offset in np.linspace(-half, half, math.ceil(2.0 * half) + 1):
        i, j = np.floor(places + offset * normals).astype(int).T
        inside = (i >= 0) & (j >= 0) & (i < cells.shape[1]) & (j < cells.shape[0])
        cells[j[inside], i[inside]] = _LINE


def grain() -> np.ndarray:
    """Makes the tile of the ground's texture (SIDE, SIDE) uint8 with mean 128, of two grain sizes, which makes motion visible; constant."""
    random = np.random.default_rng(1)
    coarse = random.standard_normal((SIDE // 8, SIDE // 8)).repeat(8, axis=0).repeat(8, axis=1)
    both = 0.6 * random.standard_normal((SIDE, SIDE)) + 0.6 * coarse
    return np.clip(128.0 + 0.5 * _CONTRAST * both, 128.0 - _CONTRAST, 128.0 + _CONTRAST).astype(np.uint8)


OPTICAL = "_optical"  # suffix of the frame of images, by REP 103: z forward, x to the right, y down
_SKY = np.array([[196, 208, 218], [110, 150, 205]], np.int64)  # at the horizon, at the zenith
_REACH = 400.0  # [m] of the profiles of heights; beyond, the ground is level
_MAX_BEARINGS = 8192  # per quarter: one per pixel, except for telephoto lenses
_WIDENS = 0.01  # minimum relative increase from one range to the next
_NOISE_SD = math.sqrt(4.0 * (256.0**2 - 1.0) / 12.0)  # of the sum of four random bytes
_LEVEL = np.zeros((0, 0)), np.zeros(4), np.zeros(0)  # heights, their grid, ranges of level ground
_SOURCES = ("lfdm_ros.sensors.rasteriser", "lfdm_ros.sensors.ground_rays")
_PICTURE = (*[POINTER] * 5, INTEGER, INTEGER, POINTER, INTEGER, INTEGER, *[POINTER] * 4, INTEGER, INTEGER, POINTER, POINTER, INTEGER,
            *[POINTER] * 3, INTEGER, *[POINTER, INTEGER] * 3, POINTER, POINTER)  # of `loops_native.draw`
_NOISE = (POINTER, INTEGER, REAL, REAL, POINTER, INTEGER)


@dataclass(frozen=True)
class CameraSettings(Declared):
    """Settings of a camera; k1, k2, k3 (radial), p1, p2 (tangential) as in OpenCV and in `plumb_bob` of CameraInfo. Raises InputError:
    names the setting that is out of range."""

    ABOUT = "camera: "

    width: int = setting(640, "px", "columns of the image", 8, 4096)
    height: int = setting(360, "px", "rows of the image", 8, 4096)
    field_of_view: float = setting(1.4, "rad", "horizontal, between the image's edges without distortion", 0.05, 2.8)
    k1: float = setting(0.0, "1", "radial distortion", -2.0, 2.0)
    k2: float = setting(0.0, "1", "radial distortion, of the fourth power", -2.0, 2.0)
    p1: float = setting(0.0, "1", "tangential distortion", -0.5, 0.5)
    p2: float = setting(0.0, "1", "tangential distortion, across", -0.5, 0.5)
    k3: float = setting(0.0, "1", "radial distortion, of the sixth power", -2.0, 2.0)
    rate: float = setting(20.0, "Hz", "images per simulated second; the period is a whole number of ticks", 0.1, 1000.0)
    latency: float = setting(0.0, "s", "from an image's stamp to its arrival", 0.0, 2.0)
    noise_sd: float = setting(0.0, "1", "standard deviation of each value, of 255", 0.0, 100.0)
    exposure_sd: float = setting(0.0, "1", "relative standard deviation of an image's brightness", 0.0, 0.5)
    jpeg_quality: int = setting(80, "%", "of the compressed image", 1, 95)

    @property
    def focal_length(self) -> float:
        """Focal length [px], equal along rows and columns."""
        return 0.5 * self.width / math.tan(0.5 * self.field_of_view)

    @property
    def centre(self) -> tuple[float, float]:
        """Column and row of the optical axis; whole numbers are centres of pixels, as in OpenCV."""
        return 0.5 * (self.width - 1), 0.5 * (self.height - 1)

    @cached_property
    def rays(self) -> np.ndarray:
        """Rays of the pixels (height, width, 2): x to the right and y down at a depth of 1; Newton's method inverts the distortion. Raises
        InputError: a distortion that folds the image, so that a pixel has no ray or several."""
        column, row = np.meshgrid(np.arange(self.width), np.arange(self.height))
        distorted = np.stack([column - self.centre[0], row - self.centre[1]], -1) / self.focal_length
        if not any((self.k1, self.k2, self.p1, self.p2, self.k3)):
            return distorted
        x, y = distorted[..., 0].copy(), distorted[..., 1].copy()
        with np.errstate(all="ignore"):
            for _ in range(30):
                r2 = x * x + y * y
                radial = 1.0 + r2 * (self.k1 + r2 * (self.k2 + r2 * self.k3))
                slope = 2.0 * (self.k1 + r2 * (2.0 * self.k2 + r2 * 3.0 * self.k3))  # of `radial` by r2, twice
                error_x = x * radial + 2.0 * self.p1 * x * y + self.p2 * (r2 + 2.0 * x * x) - distorted[..., 0]
                error_y = y * radial + self.p1 * (r2 + 2.0 * y * y) + 2.0 * self.p2 * x * y - distorted[..., 1]
                xx = radial + slope * x * x + 2.0 * self.p1 * y + 6.0 * self.p2 * x
                xy = slope * x * y + 2.0 * self.p1 * x + 2.0 * self.p2 * y
                yy = radial + slope * y * y + 6.0 * self.p1 * y + 2.0 * self.p2 * x
                area = xx * yy - xy * xy
                x -= (yy * error_x - xy * error_y) / area
                y -= (xx * error_y - xy * error_x) / area
            # Checks the slope between axis and ray: roots beyond a fold are not rays.
            min_slope = min(float((1.0 + share * r2 * (3.0 * self.k1 + share * r2 * (5.0 * self.k2 + share * r2 * 7.0 * self.k3))).min())
                            for share in np.linspace(0.1, 1.0, 10) ** 2)
        if not (np.maximum(abs(error_x), abs(error_y)).max() < 1e-9 and area.min() > 0.0 and min_slope > 0.0):
            raise InputError("camera: k1, k2, p1, p2, k3 fold the picture within its edges; give smaller ones or a smaller field_of_view")
        return np.stack([x, y], -1)


@dataclass(frozen=True, eq=False)
class CameraImage:
    """An image: pixels (height, width, 3) of red, green and blue in 0 to 255, and the settings of its camera."""

    pixels: np.ndarray
    settings: CameraSettings

    @property
    def jpeg(self) -> bytes:
        """The image as JPEG."""
        from PIL import Image  # for the compressed topic only

        out = io.BytesIO()
        Image.fromarray(self.pixels).save(out, "JPEG", quality=self.settings.jpeg_quality)
        return out.getvalue()


class Camera:
    """Camera on the body of the vehicle that renders ground, painted lines and obstacles; all pixels at one instant (global shutter).

    Obstacles are upright, with height and colour of `OBSTACLE_KINDS`; hills narrower than a hundredth of their distance may be missed. An
    image is a function of the view, the settings, the seed and its number round(time * rate) alone.

    Attributes:
        depths: of the last image (height, width), along the optical axis [m]; `rasteriser.FAR`: sky.
    """

    def __init__(self, settings: CameraSettings, mount: Mount, scene: SensorScene, seed: int = 1):
        """Initialises the camera and paints the scene's ground. Raises InputError: as `CameraSettings.rays`, or a mount that is not above
        the ground."""
        if mount.z <= 0.0:
            raise InputError(f"camera: z is {mount.z:g} m; give more than 0, above the ground")
        self.settings, self.mount, self.seed = settings, mount, seed
        self.rate, self.latency = settings.rate, settings.latency
        self._world, self._ground = scene.world, scene.ground
        self._rays = rays = settings.rays
        self._across = np.column_stack([rays[..., 0].min(axis=0), rays[..., 0].max(axis=0)])
        self._along = np.column_stack([rays[..., 1].min(axis=1), rays[..., 1].max(axis=1)])
        self._paint, self._place = paint(scene)
        self._grain = grain()
        self._heights, self._grid, self._ranges = _LEVEL
        bearings = 0
        if self._ground is not None:
            self._heights = np.ascontiguousarray(self._ground.heights)
            self._grid = np.array([self._ground.x, self._ground.y, self._ground.spacing, 0.0])
            ranges = [self._ground.spacing]
            while ranges[-1] < _REACH:
                ranges.append(ranges[-1] + max(self._ground.spacing, _WIDENS * ranges[-1]))
            self._ranges, bearings = np.array(ranges), 4 * min(math.ceil(2.0 * settings.focal_length), _MAX_BEARINGS)
        self._profiles = np.empty((2, bearings, len(self._ranges)))  # only rows of bearings in view are accessed
        self._computed = np.zeros(bearings, np.uint8)
        self.depths = np.empty((settings.height, settings.width))
        obstacles = self._world.obstacles
        looks = {kind: (look.height, *look.colour) for kind, look in OBSTACLE_KINDS.items()}
        circles = [o for o in obstacles if isinstance(o, Circle)]
        polygons = [o for o in obstacles if not isinstance(o, Circle)]
        self._circles = np.array([looks[o.kind] for o in circles]).reshape(-1, 4)
        self._walls = np.array([looks[o.kind] for o in polygons for _ in o.vertices]).reshape(-1, 4)
        self._firsts = np.cumsum([0, *(len(o.vertices) for o in polygons)], dtype=np.int64)
        self._draw = native("lfdm_ros.sensors.loops_native", _PICTURE, INTEGER, _SOURCES, "draw")
        self._add_noise = native("lfdm_ros.sensors.loops_native", _NOISE, INTEGER, _SOURCES, "noise")

    def measure(self, view: VehicleView) -> CameraImage:
        """Renders an image from the view's pose and attitude."""
        s, mount = self.settings, self.mount
        optical = turned(np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]]), mount.yaw, mount.pitch, 0.0)
        axes = np.ascontiguousarray(turned(optical, view.yaw, view.pitch, view.roll))
        eye = turned(np.array([[mount.x, mount.y, mount.z]]), view.yaw, view.pitch, view.roll)[0] + (
            view.x, view.y, self._height(view.x, view.y))
        grid = self._grid.copy()
        grid[3] = self._height(eye[0], eye[1])
        self._computed[:] = 0
        pixels = np.empty((s.height, s.width, 3), np.uint8)
        circles, walls = self._circles_at(view.time), self._walls_at(view.time)
        self._draw(*addresses(
            eye, axes, self._rays, self._across, self._along, s.height, s.width, self._paint, *self._paint.shape[:2], self._place,
            self._grain, _SKY, self._heights, *self._heights.shape, grid, self._ranges, len(self._ranges), self._computed, *self._profiles,
            len(self._computed), circles, len(circles), walls, len(walls), self._firsts, len(self._firsts), pixels, self.depths))
        if s.noise_sd or s.exposure_sd:
            source = np.random.PCG64((self.seed, round(view.time * self.rate) % 2**63))
            gain = 1.0 + s.exposure_sd * np.random.Generator(source).standard_normal()
            random = source.random_raw(-(-4 * pixels.size // 8)).view(np.uint8) if s.noise_sd else np.empty(0, np.uint8)
            self._add_noise(*addresses(pixels, pixels.size, gain, s.noise_sd / _NOISE_SD, random, len(random)))
        return CameraImage(pixels, s)

    def _height(self, x: float, y: float) -> float:
        return height(self._heights, self._grid, x, y) if self._heights.size else 0.0

    def _circles_at(self, time: float) -> np.ndarray:
        """Returns the rasteriser's rows of the circles at a time [s]; on heights they extend below the ground."""
        centres, radii = self._world.circles_at(time)
        base = np.array([self._height(x, y) for x, y in centres]) if self._heights.size else np.zeros(len(radii))
        bottom = base - radii if self._heights.size else base
        return np.column_stack([centres, radii, bottom, base + self._circles[:, 0], self._circles[:, 1:]])

    def _walls_at(self, time: float) -> np.ndarray:
        """Returns the rasteriser's rows of the polygons' edges at a time [s]; polygons stand on the ground at the mean of their corners."""
        starts, ends = self._world.edges_at(time)
        base = bottom = np.zeros(len(starts))
        if self._heights.size and len(starts):
            counts = np.diff(self._firsts)
            middles = np.add.reduceat(starts, self._firsts[:-1]) / counts[:, None]
            base = np.repeat([self._height(x, y) for x, y in middles], counts)
            bottom = base - np.hypot(*(starts - np.repeat(middles, counts, axis=0)).T).max()
        return np.column_stack([starts, ends, bottom, base + self._walls[:, 0], self._walls[:, 1:]])


def _image_fields(image: CameraImage) -> dict[str, Any]:
    height, width, _ = image.pixels.shape
    data = array("B")
    data.frombytes(image.pixels.data)
    return {"height": height, "width": width, "encoding": "rgb8", "step": 3 * width, "data": data}


def _info_fields(image: CameraImage) -> dict[str, Any]:
    s = image.settings
    f, (cx, cy) = s.focal_length, s.centre
    return {"height": s.height, "width": s.width, "distortion_model": "plumb_bob", "d": [s.k1, s.k2, s.p1, s.p2, s.k3],
            "k": [f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0], "r": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            "p": [f, 0.0, cx, 0.0, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0]}


# The format of image_transport: source pixels, and those of the JPEG.
CAMERA_TYPE = SensorType("camera", "camera", CameraSettings, Camera, (
    SensorMessage("sensor_msgs/msg/Image", _image_fields, "/image_raw", OPTICAL, 8),
    SensorMessage("sensor_msgs/msg/CompressedImage", lambda image: {
        "format": "rgb8; jpeg compressed bgr8", "data": array("B", image.jpeg)}, "/image_raw/compressed", OPTICAL, 8),
    SensorMessage("sensor_msgs/msg/CameraInfo", _info_fields, "/camera_info", OPTICAL)),
    {"noise_sd": 60.0, "exposure_sd": 0.3})
register_sensor(CAMERA_TYPE)
