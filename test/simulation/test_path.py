"""Paths: against arcs and clothoids with known curvature, a brute-force search and closed forms of speed."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import fresnel

from lfdm_ros.bounds import OUT_OF_RANGE, Refused
from lfdm_ros.errors import InputError
from lfdm_ros.simulation.path import MAX_KNOTS, MAX_THINNING_ERROR, Path, speed_profile

RADIUS = 20.0


def arc(turn: float = 4.5, n: int = 60) -> Path:
    """A circle to the left that starts at the origin along x."""
    angle = np.linspace(0.0, turn, n)
    return Path(np.column_stack([RADIUS * np.sin(angle), RADIUS * (1.0 - np.cos(angle))]))


def wavy(seed: int) -> np.ndarray:
    """Points of a long winding line."""
    random = np.random.default_rng(seed)
    heading = np.cumsum(random.normal(0.0, 0.25, 60))
    return np.cumsum(3.0 * np.column_stack([np.cos(heading), np.sin(heading)]), axis=0)


def eight() -> Path:
    """A figure of eight that crosses itself at the origin, twice round."""
    t = np.linspace(0.0, 4.0 * np.pi, 400)
    return Path(np.column_stack([40.0 * np.sin(t), 20.0 * np.sin(2.0 * t)]))


def test_arc() -> None:
    path = arc()
    assert path.length == pytest.approx(4.5 * RADIUS, rel=1e-5)
    assert np.diff(path.s) == pytest.approx(path.step) and path.step <= 0.5
    assert path.curvature == pytest.approx(1.0 / RADIUS, rel=5e-3)
    assert path.yaw == pytest.approx(path.s / RADIUS, abs=1e-4)
    x, y, _, curvature = path.at(np.linspace(0.0, 90.0, 1000))
    assert np.hypot(x, y - RADIUS) == pytest.approx(RADIUS, abs=1e-4)
    assert curvature == pytest.approx(1.0 / RADIUS, rel=5e-3)


@pytest.mark.parametrize("straight", [5.0, 20.0, 60.0])
def test_a_long_straight_piece_before_a_dense_bend_stays_straight(straight: float) -> None:
    turn = np.linspace(0.0, 0.5 * np.pi, 45)
    bend = np.column_stack([straight + 14.0 * np.sin(turn), 14.0 - 14.0 * np.cos(turn)])
    path = Path(np.concatenate([[[0.0, 0.0]], bend]))
    assert np.abs(path.at(np.linspace(0.0, straight, 200))[1]).max() < 0.03
    assert path.length == pytest.approx(straight + 7.0 * np.pi, rel=1e-3) and path.curvature.max() < 1.3 / 14.0


@pytest.mark.parametrize("guessed", [True, False])
def test_projection_on_an_arc(guessed: bool) -> None:
    angle, radius = np.linspace(0.3, 4.2, 200), np.linspace(8.0, 32.0, 200)
    s, e = arc().project(radius * np.sin(angle), RADIUS - radius * np.cos(angle), RADIUS * angle + 4.0 if guessed else None)
    assert s == pytest.approx(RADIUS * angle, abs=1e-3)
    assert e == pytest.approx(RADIUS - radius, abs=1e-4)  # to the left is inside


def test_clothoid() -> None:
    """Curvature that grows with the distance: x and y are Fresnel's integrals."""
    scale = 60.0
    t = np.linspace(0.0, 1.2, 80)
    sine, cosine = fresnel(t)
    path = Path(scale * np.column_stack([cosine, sine]))
    assert path.length == pytest.approx(scale * t[-1], rel=1e-6)
    assert path.curvature == pytest.approx(np.pi * path.s / scale**2, abs=3e-4)
    assert path.yaw == pytest.approx(0.5 * np.pi * (path.s / scale) ** 2, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_projection_against_a_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    path = Path(wavy(seed))
    true = random.uniform(2.0, path.length - 2.0, 300)
    bend = np.abs(path.at(true)[3])
    x, y, yaw, _ = path.at(true)
    aside = random.uniform(-1.0, 1.0, 300) * np.minimum(4.0, 0.4 / np.maximum(bend, 1e-3))
    px, py = x - aside * np.sin(yaw), y + aside * np.cos(yaw)
    guess = true + random.uniform(-5.0, 5.0, 300)
    s, e = path.project(px, py, guess)
    fine = np.arange(-10.0, 10.0, 0.005)
    for k in range(300):
        at = guess[k] + fine
        fx, fy, _, _ = path.at(at)
        distance = np.hypot(fx - px[k], fy - py[k])
        assert abs(e[k]) == pytest.approx(distance.min(), abs=3e-3)
        fx, fy, fyaw, _ = path.at(s[k:k + 1])
        assert px[k] == pytest.approx(fx[0] - e[k] * np.sin(fyaw[0]), abs=5e-3)
        assert py[k] == pytest.approx(fy[0] + e[k] * np.cos(fyaw[0]), abs=5e-3)


@pytest.mark.parametrize("smooth", [True, False])
def test_projection_is_continuous(smooth: bool) -> None:
    """Small steps beside the path give small steps of s and e, also over the path's points and off its ends."""
    path = Path(wavy(3)[::4], smooth)
    x, y, yaw, _ = path.at(np.linspace(-5.0, path.length + 5.0, 20001))
    aside = 1.0 * np.sin(np.linspace(0.0, 30.0, len(x)))
    px, py = x - aside * np.sin(yaw), y + aside * np.cos(yaw)
    moved = np.hypot(np.diff(px), np.diff(py))
    s, e = path.project(px, py, np.linspace(-5.0, path.length + 5.0, len(x)))
    if smooth:
        assert (np.abs(np.diff(s)) <= 4.0 * moved + 1e-9).all()
    assert (np.abs(np.diff(e)) <= 1.5 * moved + 1e-3).all()


def test_crossing_is_decided_by_the_guess() -> None:
    path = eight()
    crossings = path.length * np.array([0.25, 0.5, 0.75])
    s, e = path.project(np.zeros(3), np.zeros(3), crossings + np.array([3.0, -4.0, 5.0]))
    assert s == pytest.approx(crossings, abs=0.05)
    assert np.abs(e).max() < 0.02


def test_straight_beyond_the_ends() -> None:
    path = arc(1.5)
    x, y, yaw, curvature = path.at(np.array([-30.0, path.length + 40.0]))
    assert (x[0], y[0]) == (pytest.approx(-30.0, abs=1e-3), pytest.approx(0.0, abs=1e-2))
    assert (curvature == 0.0).all() and yaw[1] == path.yaw[-1]
    s, e = path.project(x - np.sin(yaw), y + np.cos(yaw), np.array([-20.0, path.length + 45.0]))
    assert s == pytest.approx([-30.0, path.length + 40.0]) and e == pytest.approx([1.0, 1.0])
    s, e = path.project(x - np.sin(yaw), y + np.cos(yaw))
    assert s == pytest.approx([-30.0, path.length + 40.0]) and e == pytest.approx([1.0, 1.0])
    longer = path.extended(40.0)
    assert path.length + 40.0 <= longer.length <= path.length + 40.5
    at = np.array([10.0, path.length + 20.0])
    assert np.array(longer.at(at)) == pytest.approx(np.array(path.at(at)))


def test_polyline_keeps_its_pieces() -> None:
    path = Path(np.array([[0.0, 0.0], [20.0, 0.0], [20.0, 10.0]]), smooth=False)
    assert path.length == pytest.approx(30.0)
    assert path.y[path.s <= 20.0] == pytest.approx(0.0) and path.x[path.s >= 20.0] == pytest.approx(20.0)
    assert path.yaw[[0, -1]] == pytest.approx([0.0, 0.5 * np.pi])
    turned = np.sum(path.curvature) * path.step
    assert turned == pytest.approx(0.5 * np.pi)


def test_start_yaw() -> None:
    path = Path(np.array([[0.0, 0.0], [20.0, 5.0], [40.0, 0.0]]), start_yaw=-0.3)
    assert path.yaw[0] == pytest.approx(-0.3)
    assert np.abs(np.diff(path.curvature)).max() < 0.05


def test_yaw_is_unwrapped() -> None:
    assert np.abs(np.diff(eight().yaw)).max() < 0.2


def test_repeated_points_are_merged() -> None:
    points = wavy(1)
    assert Path(np.repeat(points, 3, axis=0)).x == pytest.approx(Path(points).x, abs=1e-12)


@pytest.mark.parametrize("points", [
    np.zeros((0, 2)), np.zeros((1, 2)), np.zeros((5, 2)), np.zeros((4, 3)), np.zeros(4), [[0.0, 0.0], [np.nan, 1.0]],
    [[0.0, 0.0], [np.inf, 1.0]], [[0.0, 0.0], [0.3, 0.0]], [[0.0, 0.0], [1e6, 0.0]], [["a", "b"]]])
@pytest.mark.parametrize("smooth", [True, False])
def test_bad_points(points: object, smooth: bool) -> None:
    with pytest.raises(InputError, match=r"lane\.yaml"):
        Path(points, smooth, where="lane.yaml")  # type: ignore[arg-type]


def test_speed_to_a_stop_and_away() -> None:
    path = Path(np.array([[0.0, 0.0], [400.0, 0.0]]))
    start = np.full(len(path.s), 30.0)
    start[0] = 0.0
    speed = speed_profile(path, start, 5.0, 2.0, 4.0, 0.0)
    expected = np.minimum(np.minimum(np.sqrt(2.0 * 2.0 * path.s), np.sqrt(2.0 * 4.0 * (path.length - path.s))), 30.0)
    assert speed == pytest.approx(expected, abs=1e-6)
    assert speed_profile(path, 20.0, 5.0, 2.0, 4.0) == pytest.approx(20.0)


def test_speed_in_a_curve() -> None:
    path = arc()
    assert speed_profile(path, 50.0, 3.0, 2.0, 4.0)[15:-15] == pytest.approx(np.sqrt(3.0 * RADIUS), rel=5e-3)


@pytest.mark.parametrize("ellipse", [False, True])
def test_speed_keeps_all_limits(ellipse: bool) -> None:
    """No limit is broken, and everywhere one of them is met: the profile could not be faster."""
    path = Path(wavy(2))
    speed = speed_profile(path, 15.0, 4.0, 2.0, 3.0, 1.0, ellipse)
    lateral = speed**2 * np.abs(path.curvature)
    along = np.diff(speed**2) / (2.0 * path.step)
    assert lateral.max() <= 4.0 + 1e-9 and speed.max() <= 15.0 and speed[-1] <= 1.0
    left_forward = np.sqrt(np.maximum(1.0 - (lateral[:-1] / 4.0) ** 2, 0.0)) if ellipse else 1.0
    left_backward = np.sqrt(np.maximum(1.0 - (lateral[1:] / 4.0) ** 2, 0.0)) if ellipse else 1.0
    forward, backward = 2.0 * left_forward - along, 3.0 * left_backward + along
    if not ellipse:  # with it the forward limit is taken at speeds that the backward pass may have left
        assert forward.min() > -1e-6
    assert backward.min() > -1e-6
    met = np.minimum(15.0 - speed, 4.0 - lateral)[1:-1]
    met = np.minimum(met, np.minimum(np.minimum(np.abs(forward[:-1]), np.abs(backward[:-1])),
                                     np.minimum(np.abs(forward[1:]), np.abs(backward[1:]))))
    assert met.max() < 1e-6


@pytest.mark.parametrize(("change", "name"), [
    ({"highest": np.nan}, "highest"), ({"highest": -1.0}, "highest"), ({"highest": np.ones(3)}, "highest"),
    ({"lateral_acceleration": 0.0}, "lateral_acceleration"), ({"acceleration": -1.0}, "acceleration"), ({"braking": np.inf}, "braking"),
    ({"end_speed": np.nan}, "end_speed"), ({"end_speed": -1.0}, "end_speed")])
def test_bad_limits(change: dict, name: str) -> None:
    limits = {"highest": 10.0, "lateral_acceleration": 3.0, "acceleration": 2.0, "braking": 3.0, "end_speed": 0.0}
    with pytest.raises(InputError, match=name):
        speed_profile(arc(), **{**limits, **change})


# -- Many points ------------------------------------------------------------------------------------------------------------


def knots(monkeypatch: pytest.MonkeyPatch, points: np.ndarray) -> tuple[Path, int]:
    """The path, and of how many points its spline was made."""
    sizes = []

    def counted(u: np.ndarray, y: np.ndarray, **options: object) -> object:
        sizes.append(len(u))
        return CubicSpline(u, y, **options)

    monkeypatch.setattr("scipy.interpolate.CubicSpline", counted)
    return Path(points), sizes[0]


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_ten_kilometres_in_steps_of_ten_centimetres(monkeypatch: pytest.MonkeyPatch, noise: float) -> None:
    s = 0.1 * np.arange(100_001)
    points = np.column_stack([s, 30.0 * np.sin(s / 60.0)])
    path, count = knots(monkeypatch, points + np.random.default_rng(1).normal(0.0, noise, points.shape))
    assert count <= MAX_KNOTS + 1 and len(path.s) == pytest.approx(2.0 * path.length, abs=2.0)
    assert path.x[-1] == pytest.approx(1e4, abs=0.1)
    _, aside = path.project(*points[::7].T)
    assert np.abs(aside).max() < (MAX_THINNING_ERROR if noise else 0.01)


def test_few_points_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    s = 0.1 * np.arange(MAX_KNOTS)
    assert knots(monkeypatch, np.column_stack([s, np.sin(s)]))[1] == MAX_KNOTS


@pytest.mark.parametrize("points", [
    np.cumsum(np.random.default_rng(1).normal(0.0, 0.07, (400_000, 2)), axis=0), np.zeros((500_001, 2)), np.full((30_000, 2), 1e7),
    np.random.default_rng(1).uniform(-1e7, 1e7, (30_000, 2))])
def test_what_cannot_be_thinned_is_refused(points: np.ndarray) -> None:
    with pytest.raises(InputError, match="path: "):
        Path(points)


@pytest.mark.parametrize("points", [[[0.0, 0.0], [1e300, 0.0]], [[0.0, 0.0], [1e9, 0.0]], [[-1e308, 0.0], [1e308, 0.0]]])
def test_a_path_lies_where_a_vehicle_can_be(points: list[list[float]]) -> None:
    with pytest.raises(Refused, match="path: point") as caught:
        Path(np.array(points))
    assert caught.value.reason == OUT_OF_RANGE


def test_positions_are_located_where_nothing_is_nearer():
    """Within the window about their guesses; and `at` agrees with what is there."""
    path, rng = Path(np.column_stack([np.arange(0.0, 200.0, 5.0), 8.0 * np.sin(np.arange(40) / 3.0)])), np.random.default_rng(6)
    near = np.concatenate([rng.uniform(-30.0, path.length + 30.0, 200), [0.0, path.length, np.nan]])
    x, y = (a + rng.normal(0.0, 2.0, len(near)) for a in path.at(np.nan_to_num(near))[:2])
    s, offset, *there = path.locate(x, y, near)
    np.testing.assert_allclose(there, path.at(s), rtol=0.0, atol=1e-12)
    inside = np.abs(s - near) < 5.0
    assert inside.mean() > 0.8
    px, py = there[:2]
    away = np.hypot(x - px, y - py)[inside]
    fine = np.linspace(-60.0, path.length + 60.0, 40_001)
    fx, fy, *_ = path.at(fine)
    for k, found in zip(np.flatnonzero(inside), away):
        around = np.abs(fine - near[k]) < 8.0
        assert found <= np.hypot(fx[around] - x[k], fy[around] - y[k]).min() + 0.01
        assert abs(offset[k]) == pytest.approx(found, abs=0.01)


def test_a_path_that_turns_back_on_itself_between_two_points():
    """Two of its points are one there."""
    path = Path(np.array([[0.0, 0.0], [0.0, 1.25], [0.0, 0.0]]), smooth=False)
    assert path.length == pytest.approx(2.5)
    s, offset = path.project(np.array([0.3]), np.array([0.5]), np.array([0.5]))
    assert s == pytest.approx([0.5]) and offset == pytest.approx([-0.3])
    assert all(np.isfinite(values).all() for values in path.at(np.linspace(0.0, 2.5, 26)))
