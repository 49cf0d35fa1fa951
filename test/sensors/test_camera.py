"""The camera's pictures: projection against OpenCV, what hides what, heights against marched rays, friction, noise, messages."""

from __future__ import annotations

import io
import itertools
import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from lfdm_ros.errors import InputError
from lfdm_ros.ros.message_fields import filled
from lfdm_ros.ros.topics import interface_class
from lfdm_ros.sensors import Camera, CameraSettings, SensorScene, VehicleView, make_sensors
from lfdm_ros.sensors.camera import CAMERA_TYPE
from lfdm_ros.sensors.ground_rays import Surface, height, march, turned
from lfdm_ros.simulation.world import OBSTACLE_KINDS, Circle, Polygon, World
from lfdm_ros.vehicles import Mount, load_vehicle

MOUNT = Mount(x=0.5, z=1.5)
LEVEL = VehicleView(0.0, 0.0, 0.0, 0.0)
DISTORTED = dict(k1=-0.28, k2=0.09, p1=0.002, p2=-0.003, k3=-0.012)
VIEWS = {
    "straight": (CameraSettings(), MOUNT, LEVEL),
    "distorted": (CameraSettings(**DISTORTED), MOUNT, LEVEL),
    "tilted": (CameraSettings(), MOUNT, VehicleView(0.0, 3.0, -2.0, 0.9, 0.12, -0.05)),
    "mounted aside": (CameraSettings(width=800, height=500, field_of_view=1.0), Mount(1.2, -0.4, -0.5, 2.1, 0.15),
                      VehicleView(0.0, -4.0, 1.0, 2.5)),
    "all": (CameraSettings(width=720, height=480, **DISTORTED), Mount(-0.7, 0.3, 0.3, 1.8, 0.1),
            VehicleView(0.0, 5.0, 7.0, -2.0, -0.1, 0.06)),
}


def take(settings: CameraSettings, mount: Mount, view: VehicleView, *obstacles: Circle | Polygon, **scene: object) -> np.ndarray:
    return Camera(settings, mount, SensorScene(World(obstacles), **scene)).measure(view).pixels.astype(int)


def axes_of(mount: Mount, view: VehicleView) -> tuple[Rotation, np.ndarray]:
    """Attitude of the optical axes in the map and place of the camera, by another library's Euler angles."""
    body = Rotation.from_euler("ZYX", [view.yaw, view.pitch, view.roll])
    place, optics = (Rotation.from_euler("ZYX", angles) for angles in ([mount.yaw, mount.pitch, 0.0], [-0.5 * np.pi, 0.0, -0.5 * np.pi]))
    return body * place * optics, body.apply([mount.x, mount.y, mount.z]) + (view.x, view.y, 0.0)


def projected(settings: CameraSettings, mount: Mount, view: VehicleView, points: np.ndarray) -> np.ndarray:
    """Columns and rows (n, 2) of points (n, 3) by OpenCV, with the matrices of CameraInfo."""
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed: pip install opencv-python-headless")
    camera = Camera(settings, mount, SensorScene(World()))
    info = CAMERA_TYPE.messages[2].fields(camera.measure(view))
    optical, eye = axes_of(mount, view)
    turn = optical.inv()
    found, _ = cv2.projectPoints(np.ascontiguousarray(points), turn.as_rotvec(), -turn.apply(eye), np.reshape(info["k"], (3, 3)),
                                 np.array(info["d"]))
    return found.reshape(-1, 2)


def ahead_of(mount: Mount, view: VehicleView, bearing: float, distance: float) -> tuple[float, float]:
    _, eye = axes_of(mount, view)
    heading = view.yaw + mount.yaw + bearing
    return float(eye[0] + distance * math.cos(heading)), float(eye[1] + distance * math.sin(heading))


@pytest.mark.parametrize("name", VIEWS)
def test_posts_end_where_opencv_projects_their_ends(name: str) -> None:
    settings, mount, view = VIEWS[name]
    distances = [distance for distance, _ in zip(itertools.cycle((7.0, 12.0, 9.0, 16.0)), range(13))]
    places = [ahead_of(mount, view, bearing, distance) for bearing, distance in zip(np.linspace(-0.42, 0.42, 13), distances)]
    top = OBSTACLE_KINDS["post"].height
    picture = take(settings, mount, view, *(Circle(x, y, 0.003 * r, kind="post") for (x, y), r in zip(places, distances)))
    yellow = np.argwhere(picture[..., 0] - picture[..., 2] > 45)[:, ::-1]  # columns and rows
    ends = projected(settings, mount, view, np.array([(x, y, z) for x, y in places for z in (0.0, top)])).reshape(-1, 2, 2)
    inside = ((ends > 5.0) & (ends < (settings.width - 6, settings.height - 6))).all(axis=(1, 2))
    assert inside.sum() >= 9
    for end in ends[inside]:
        along = (end[1] - end[0]) / np.hypot(*(end[1] - end[0]))
        own = yellow[abs((yellow - end[0]) @ [-along[1], along[0]]) < 6.0]
        reach, aside = (own - end[0]) @ along, (own - end[0]) @ [-along[1], along[0]]
        assert abs(reach.min()) < 1.0 and abs(reach.max() - (end[1] - end[0]) @ along) < 1.0
        # The line from end to end is curved by the distortion, at most by this much at its middle.
        near = (reach < 4.0) | (reach > reach.max() - 4.0)
        assert abs(aside[near].mean()) < 0.7


@pytest.mark.parametrize(("kind", "rise"), [("wall", 0.0), ("car", 1.2)])
def test_a_prism_has_the_outline_of_its_corners(kind: str, rise: float) -> None:
    """As high as the eye and below it, where its lid shows."""
    corners = np.array([(9.0, -1.5), (12.0, -2.0), (12.5, 1.0), (9.5, 1.5)])
    mount, view = Mount(0.5, z=1.5 + rise), VehicleView(0.0, 0.0, 0.0, 0.05, 0.04, 0.03)
    without, picture = (take(CameraSettings(), mount, view, *some) for some in ((), (Polygon(corners, kind=kind),)))
    rows, columns = np.nonzero((picture != without).any(axis=-1))
    points = np.array([(x, y, z) for x, y in corners for z in (0.0, OBSTACLE_KINDS[kind].height)])
    expected = projected(CameraSettings(), mount, view, points)
    np.testing.assert_allclose([columns.min(), columns.max(), rows.min(), rows.max()],
                               [*(f(expected[:, k]) for k in (0, 1) for f in (np.min, np.max))], atol=1.0)
    lid = np.array(OBSTACLE_KINDS[kind].colour)
    assert bool((abs(picture - lid).max(axis=-1) < 12).any()) == (rise > 0.0)


@pytest.mark.parametrize("pitch", [0.0, 0.1, -0.08])
def test_the_horizon_is_where_the_pitch_puts_it(pitch: float) -> None:
    settings = CameraSettings()
    picture = take(settings, MOUNT, VehicleView(0.0, 0.0, 0.0, 1.0, 0.0, pitch))
    first = int(np.argmin(np.diff(picture[:, 300, 0]))) + 1
    assert first == pytest.approx(settings.centre[1] - settings.focal_length * math.tan(pitch), abs=1.0)


def test_the_nearer_hides_the_farther_and_a_hill_hides_both() -> None:
    near, far = Circle(10.0, 0.0, 0.8, kind="van"), Circle(20.0, 0.0, 0.8, kind="pedestrian")
    alone = take(CameraSettings(), MOUNT, LEVEL, near)
    np.testing.assert_array_equal(take(CameraSettings(), MOUNT, LEVEL, far, near), alone)
    assert (take(CameraSettings(), MOUNT, LEVEL, far) != take(CameraSettings(), MOUNT, LEVEL)).any()
    x, y = np.meshgrid(np.arange(-20.0, 60.0, 0.5), np.arange(-30.0, 30.0, 0.5))
    hill = Surface(3.0 * np.exp(-((x - 6.0) / 1.5) ** 2 - (y / 8.0) ** 2), -20.0, -30.0, 0.5)
    np.testing.assert_array_equal(take(CameraSettings(), MOUNT, LEVEL, near, far, ground=hill),
                                  take(CameraSettings(), MOUNT, LEVEL, ground=hill))
    on_top = take(CameraSettings(), MOUNT, LEVEL, Circle(6.0, 0.0, 0.5, kind="tree"), ground=hill)
    assert (on_top != take(CameraSettings(), MOUNT, LEVEL, ground=hill)).any()


def test_level_heights_give_the_picture_of_level_ground() -> None:
    settings, mount, view = VIEWS["all"]
    flat = Surface(np.zeros((200, 200)), -50.0, -50.0, 0.5)
    scene = [Circle(*ahead_of(mount, view, 0.1, 12.0), 0.5)]
    level, on_heights = take(settings, mount, view, *scene), take(settings, mount, view, *scene, ground=flat)
    assert (level != on_heights).any(axis=-1).mean() < 0.002  # a cell of the grain by the last bit, and the horizon


def test_hills_are_met_where_marched_rays_meet_them() -> None:
    settings, mount = CameraSettings(width=96, height=54, k1=-0.1), Mount(0.5, z=1.6, pitch=0.05)
    view = VehicleView(0.0, 2.0, 3.0, 0.4, 0.08, 0.02)
    x, y = np.meshgrid(np.arange(-40.0, 80.0, 0.5), np.arange(-60.0, 80.0, 0.5))
    surface = Surface(1.5 * np.sin(0.15 * x) * np.cos(0.11 * y) + 0.01 * x, -40.0, -60.0, 0.5)
    camera = Camera(settings, mount, SensorScene(World(), surface))
    camera.measure(view)
    optical, eye = axes_of(mount, view)
    picked = np.random.default_rng(0).integers(0, settings.height * settings.width, 250)
    ways = optical.apply(np.column_stack([settings.rays.reshape(-1, 2)[picked], np.ones(len(picked))]))
    expected = np.empty(len(picked))
    march(height, surface.heights, np.array([-40.0, -60.0, 0.5, 60.0]), np.array([*eye, view.x, view.y]), ways, expected)
    found = camera.depths.reshape(-1)[picked]
    met = np.isfinite(expected)
    assert 80 < met.sum() < 240 and (found[~met] > 55.0).mean() > 0.97
    # A pixel at a hill's edge may fall to either side of it.
    assert (abs(found[met] - expected[met]) < 0.05 + 0.03 * expected[met]).mean() > 0.95


def test_ice_and_lines_begin_where_they_are_projected() -> None:
    settings = CameraSettings()
    scene = dict(area=(-10.0, -40.0, 60.0, 40.0), friction=lambda x, y: np.where(x > 12.0, 0.15, 1.0),
                 lines=[np.array([(-5.0, 1.5), (40.0, 1.5)])])
    picture = take(settings, MOUNT, LEVEL, **scene)
    column = picture[:, 319].sum(axis=-1)
    ice = int(np.flatnonzero(column[200:] > 500).max()) + 200
    assert ice == pytest.approx(settings.centre[1] + settings.focal_length * 1.5 / 11.5, abs=1.5)
    row = 240  # at a depth of f h / (row - centre)
    depth = settings.focal_length * 1.5 / (row - settings.centre[1])
    painted = np.flatnonzero(picture[row].min(axis=-1) > 180)
    assert painted.mean() == pytest.approx(settings.centre[0] - settings.focal_length * 1.5 / depth, abs=1.0)
    assert len(painted) == pytest.approx(settings.focal_length * 0.15 / depth, abs=3.0)


def test_a_moving_obstacle_is_where_it_is_at_the_time_of_the_picture() -> None:
    moving = take(CameraSettings(), MOUNT, VehicleView(2.0, 0.0, 0.0, 0.0), Circle(20.0, -4.0, 0.6, vx=-3.0, vy=1.5))
    np.testing.assert_array_equal(moving, take(CameraSettings(), MOUNT, LEVEL, Circle(14.0, -1.0, 0.6)))


def test_pictures_repeat_to_the_byte_and_their_noise_is_as_asked() -> None:
    scene = SensorScene(World((Circle(9.0, 1.0, 0.5),)))
    clean = Camera(CameraSettings(), MOUNT, scene).measure(LEVEL).pixels.astype(float)
    settings = CameraSettings(noise_sd=6.0, exposure_sd=0.1)
    camera, again = (Camera(settings, MOUNT, scene, seed=7) for _ in range(2))
    views = [VehicleView(0.05 * k, 0.0, 0.0, 0.0) for k in range(30)]
    pictures = [camera.measure(view).pixels for view in views]
    for k in (20, 3):  # in any order
        np.testing.assert_array_equal(again.measure(views[k]).pixels, pictures[k])
    assert (Camera(settings, MOUNT, scene, seed=8).measure(views[3]).pixels != pictures[3]).mean() > 0.8
    gains = [float((p * clean).sum() / (clean * clean).sum()) for p in pictures]
    assert 0.06 < np.std(gains) < 0.14 and abs(np.mean(gains) - 1.0) < 0.06
    dim = int(np.argmin(gains))  # the sky of others may be at the end of the range
    noise = pictures[dim] - gains[dim] * clean
    assert noise.std() == pytest.approx(6.0, rel=0.03) and abs(noise.mean()) < 0.1
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]) < 0.01


def test_a_vehicles_camera_gives_messages_of_ros() -> None:
    from PIL import Image

    kind, camera = make_sensors(load_vehicle("hmmwv_camera"), SensorScene(World((Circle(12.0, 0.0, 1.0),))))["front"]
    measured = camera.measure(LEVEL)
    raw, compressed, info = (filled(interface_class(m.type), m.fields(measured)) for m in kind.messages)
    assert (raw.encoding, raw.step, raw.width, raw.height) == ("rgb8", 3 * 640, 640, 360)
    np.testing.assert_array_equal(np.frombuffer(raw.data, np.uint8), measured.pixels.ravel())
    decoded = np.asarray(Image.open(io.BytesIO(compressed.data)))
    assert abs(decoded.astype(int) - measured.pixels).mean() < 4.0
    assert info.k[0] == pytest.approx(320.0 / math.tan(0.7)) and info.distortion_model == "plumb_bob" and len(info.d) == 5
    assert [m.frame for m in kind.messages] == ["_optical"] * 3


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="k1"):
        Camera(CameraSettings(k1=-0.9), MOUNT, SensorScene(World()))
    with pytest.raises(InputError, match="z is 0"):
        Camera(CameraSettings(), Mount(), SensorScene(World()))


def test_the_attitude_of_a_mount_is_that_of_the_euler_angles() -> None:
    np.testing.assert_allclose(turned(np.eye(3), 0.3, -0.2, 0.1), Rotation.from_euler("ZYX", [0.3, -0.2, 0.1]).as_matrix().T, atol=1e-15)
