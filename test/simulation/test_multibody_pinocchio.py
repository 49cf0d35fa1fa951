"""The embedded multibody against Pinocchio: the same bodies as an open tree of 34 coordinates, its loops closed by 19 constraint equations.

Pinocchio gives the mass matrix, the bias forces, the frames and their Jacobians; springs, dampers, tyres and drive act on its frames; the
multipliers are solved for here. Nothing of the embedding is used but the pose, which has its own oracle.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from lfdm_ros.backends import ARRAYS, casadi_model, compiled_model_function
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.models.double_wishbone import POINTS, DoubleWishbone
from lfdm_ros.models.steering_linkage import PitmanArm
from lfdm_ros.models.vectors import ZERO, Vector
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import Vehicle, load_vehicle

pin = pytest.importorskip("pinocchio", reason="the test extra has it: pip install pin")

WHEELS = ("fl", "fr", "rl", "rr")
VEHICLE = load_vehicle("hmmwv_multibody").replace(rolling_resistance=0.0)
MODEL = VEHICLE.model("multibody_hmmwv")
NAMES = [field.name for field in MODEL.states]


def points(p: SimpleNamespace, wheel: str, ends: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Of a corner, in the body's axes from the sprung mass's centre."""
    axle = "front" if wheel[0] == "f" else "rear"
    x = p.cg_to_front_axle - p.wheel_centre_front_x if axle == "front" else -p.cg_to_rear_axle - p.wheel_centre_rear_x
    side = [1.0, 1.0 if wheel[1] == "l" else -1.0, 1.0]
    return {name: np.array([x, 0.0, -p.cg_above_pivots]) + np.array(side) * [getattr(p, f"{name}_{axle}_{c}") for c in "xyz"]
            for name in (*POINTS, *ends)}


def moments(p: SimpleNamespace, name: str) -> np.ndarray:
    return np.array([getattr(p, f"{name}_{c}") for c in "xyz"])


class Tree:
    """The open tree with its frames, and the states of the multibody on it."""

    def __init__(self, vehicle: Vehicle):
        self.p = p = SimpleNamespace(**vehicle.parameters)
        self.model = model = pin.Model()
        model.gravity.linear[:] = [0.0, 0.0, -GRAVITY]
        self.frames: dict[str, int] = {}
        self.joints: dict[str, int] = {}
        self.at = {wheel: points(p, wheel, ("spring_upper", "spring_lower", "damper_upper", "damper_lower")) for wheel in WHEELS}
        self._add("body", 0, pin.JointModelFreeFlyer(), np.zeros(3), p.sprung_mass, np.zeros(3),
                  np.diag([p.roll_inertia, p.pitch_inertia, p.yaw_inertia]))
        body = self.joints["body"]
        for wheel, at in self.at.items():
            self._corner(wheel, at, body)
        self._steering(body)
        self.data = model.createData()

    def _add(self, name: str, parent: int, joint, place: np.ndarray, mass: float, centre: np.ndarray, inertia: np.ndarray) -> None:
        """A body with its joint, axes as those of the vehicle in the construction pose; `place` and `centre` from the joint before."""
        index = self.model.addJoint(parent, joint, pin.SE3(np.eye(3), place), name)
        self.model.appendBodyToJoint(index, pin.Inertia(mass, centre, inertia), pin.SE3.Identity())
        self.joints[name] = index

    def _frame(self, name: str, joint: str, place: np.ndarray) -> None:
        self.frames[name] = self.model.addFrame(pin.Frame(name, self.joints[joint], pin.SE3(np.eye(3), place), pin.FrameType.OP_FRAME))

    def _corner(self, wheel: str, at: dict[str, np.ndarray], body: int) -> None:
        p, axle = self.p, "front" if wheel[0] == "f" else "rear"
        side = 1.0 if wheel[1] == "l" else -1.0
        # The lower arm last: Pinocchio wants a body's descendants to follow it at once.
        for arm, ball_joint in (("upper_arm", "upper_ball_joint"), ("lower_arm", "lower_ball_joint")):
            pivot = at[f"{arm}_fore"]
            axis = side * (pivot - at[f"{arm}_aft"])
            axis /= np.linalg.norm(axis)
            normal = np.cross(axis, at[ball_joint] - pivot)
            normal /= np.linalg.norm(normal)
            axes = np.column_stack([axis, np.cross(normal, axis), normal])
            self._add(f"{arm}_{wheel}", body, pin.JointModelRevoluteUnaligned(axis), pivot, getattr(p, f"{arm}_mass_{axle}"),
                      at[f"{arm}_centre"] - pivot, axes @ np.diag(moments(p, f"{arm}_inertia_{axle}")) @ axes.T)
        lower, pivot = at["lower_ball_joint"], at["lower_arm_fore"]
        self._add(f"upright_{wheel}", self.joints[f"lower_arm_{wheel}"], pin.JointModelSpherical(), lower - pivot,
                  getattr(p, f"upright_mass_{axle}"), at["upright_centre"] - lower, np.diag(moments(p, f"upright_inertia_{axle}")))
        linkage = p.pitman_arm_mass + p.steering_link_mass if axle == "front" else 0.0
        mass = (0.5 * (getattr(p, f"unsprung_mass_{axle}") - linkage)
                - sum(getattr(p, f"{part}_mass_{axle}") for part in ("lower_arm", "upper_arm", "upright")))
        across = p.wheel_transverse_inertia
        self._add(f"wheel_{wheel}", self.joints[f"upright_{wheel}"], pin.JointModelRY(), at["wheel_centre"] - lower, mass, np.zeros(3),
                  np.diag([across, p.wheel_inertia - p.axle_inertia, across]))
        self._frame(f"upper_{wheel}", f"upright_{wheel}", at["upper_ball_joint"] - lower)
        self._frame(f"upper_on_arm_{wheel}", f"upper_arm_{wheel}", at["upper_ball_joint"] - at["upper_arm_fore"])
        self._frame(f"outer_{wheel}", f"upright_{wheel}", at["tie_rod_outer"] - lower)
        for name in ("spring", "damper"):
            self._frame(f"{name}_upper_{wheel}", "body", at[f"{name}_upper"])
            self._frame(f"{name}_lower_{wheel}", f"lower_arm_{wheel}", at[f"{name}_lower"] - pivot)
        if axle == "rear":
            self._frame(f"inner_{wheel}", "body", at["tie_rod_inner"])

    def _steering(self, body: int) -> None:
        """The arm turns; the link may be anywhere, and its end is held to the arm's by a constraint."""
        p = self.p
        tilt = Rotation.from_euler("y", p.pitman_arm_tilt).as_matrix()
        origin = np.array([p.cg_to_front_axle - p.wheel_centre_front_x, 0.0, -p.cg_above_pivots])
        pivot, link = origin + moments(p, "pitman_arm_pivot"), origin + moments(p, "steering_link_centre")
        end = pivot + tilt @ [p.pitman_arm_length, 0.0, 0.0]
        self._add("arm", body, pin.JointModelRevoluteUnaligned(tilt[:, 2]), pivot, p.pitman_arm_mass, tilt @ [p.pitman_arm_centre, 0, 0],
                  tilt @ np.diag(moments(p, "pitman_arm_inertia")) @ tilt.T)
        self._add("link", body, pin.JointModelTranslation(), link, p.steering_link_mass, np.zeros(3),
                  tilt @ np.diag(moments(p, "steering_link_inertia")) @ tilt.T)
        self._frame("arm_end", "arm", end - pivot)
        self._frame("link_end", "link", end - link)
        for wheel in WHEELS[:2]:
            self._frame(f"inner_{wheel}", "link", self.at[wheel]["tie_rod_inner"] - link)

    # -- States --------------------------------------------------------------------------------------------------------------------------
    def place(self, joint: str, of: str = "v") -> slice:
        index = self.joints[joint]
        start, count = ((self.model.idx_vs, self.model.nvs) if of == "v" else (self.model.idx_qs, self.model.nqs))
        return slice(start[index], start[index] + count[index])

    def configuration(self, x: dict[str, float]) -> np.ndarray:
        p, q = self.p, pin.neutral(self.model)
        attitude = Rotation.from_euler("ZYX", [x["yaw"], x["pitch"], x["roll"]])
        q[self.place("body", "q")] = [x["x"], x["y"], x["z"], *attitude.as_quat()]
        origin = Vector(p.cg_to_front_axle - p.wheel_centre_front_x, 0.0, -p.cg_above_pivots)
        linkage = PitmanArm(ARRAYS)
        shift = linkage.shift(x["link_displacement"], linkage.prepare(p, origin)).displacement
        q[self.place("arm", "q")] = np.arcsin(x["link_displacement"] / p.pitman_arm_length)
        q[self.place("link", "q")] = shift.components
        wishbone = DoubleWishbone(ARRAYS)
        for wheel in WHEELS:
            front, theta = wheel[0] == "f", x[f"arm_angle_{wheel}"]
            prepared = wishbone.prepare(p, "front" if front else "rear", wheel[1] == "l", ZERO if not front else origin)
            pose = wishbone.pose(prepared, np.cos(theta), np.sin(theta), shift if front else ZERO)
            lower_axis, upper_axis = (np.array(axis.components) for axis in (prepared.lower_axis, prepared.upper_axis))
            arm, now = (np.array(v.components) for v in (prepared.upper_arm, pose.upper - prepared.upper_arm_fore))
            q[self.place(f"lower_arm_{wheel}", "q")] = theta
            q[self.place(f"upper_arm_{wheel}", "q")] = np.arctan2(upper_axis @ np.cross(arm, now), arm @ now - (upper_axis @ arm) ** 2)
            upright = Rotation.from_matrix(np.column_stack([v.components for v in (pose.basis.x, pose.basis.y, pose.basis.z)]))
            q[self.place(f"upright_{wheel}", "q")] = (Rotation.from_rotvec(-theta * lower_axis) * upright).as_quat()
        return q

    def jacobian(self, frame: str) -> np.ndarray:
        """Of a frame's velocity, 6 rows, along the axes of the world."""
        return pin.getFrameJacobian(self.model, self.data, self.frames[frame], pin.LOCAL_WORLD_ALIGNED)

    def position(self, frame: str) -> np.ndarray:
        return self.data.oMf[self.frames[frame]].translation.copy()

    def constraints(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Rows J and bias of J a + bias = 0, and the largest gap of a loop."""
        def motion(frame: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            drift = pin.getFrameClassicalAcceleration(self.model, self.data, self.frames[frame], pin.LOCAL_WORLD_ALIGNED).linear.copy()
            return self.position(frame), self.jacobian(frame)[:3].copy(), drift

        rows, biases, gaps = [], [], []
        for one, other in (("arm_end", "link_end"), *((f"upper_{wheel}", f"upper_on_arm_{wheel}") for wheel in WHEELS)):
            (place, jacobian, drift), (its_place, its_jacobian, its_drift) = motion(one), motion(other)
            rows.append(jacobian - its_jacobian)
            biases.append(drift - its_drift)
            gaps.append(np.abs(place - its_place).max())
        for wheel in WHEELS:
            (place, jacobian, drift), (its_place, its_jacobian, its_drift) = motion(f"outer_{wheel}"), motion(f"inner_{wheel}")
            rod, relative = place - its_place, (jacobian - its_jacobian) @ v
            rows.append(rod[None] @ (jacobian - its_jacobian))
            biases.append(np.array([rod @ (drift - its_drift) + relative @ relative]))
            gaps.append(abs(np.linalg.norm(rod) - np.linalg.norm(self.at[wheel]["tie_rod_outer"] - self.at[wheel]["tie_rod_inner"])))
        return np.vstack(rows), np.concatenate(biases), max(gaps)

    def velocity(self, q: np.ndarray, x: dict[str, float]) -> np.ndarray:
        """The independent rates are given; the others are those with which the loops stay closed."""
        v = np.zeros(self.model.nv)
        v[self.place("body")] = [x[name] for name in ("vx", "vy", "vz", "roll_rate", "pitch_rate", "yaw_rate")]
        length = self.p.pitman_arm_length
        v[self.place("arm")] = x["link_rate"] / np.sqrt(length**2 - x["link_displacement"] ** 2)
        for wheel in WHEELS:
            v[self.place(f"lower_arm_{wheel}")], v[self.place(f"wheel_{wheel}")] = x[f"arm_rate_{wheel}"], x[f"omega_{wheel}"]
        self.update(q, v)
        rows, _, _ = self.constraints(v)
        follows = np.concatenate([np.arange(self.model.nv)[self.place(name)] for name in
                                  ("link", *(f"{part}_{wheel}" for part in ("upper_arm", "upright") for wheel in WHEELS))])
        v[follows] = np.linalg.solve(rows[:, follows], -rows @ v)
        return v

    def update(self, q: np.ndarray, v: np.ndarray) -> None:
        pin.forwardKinematics(self.model, self.data, q, v, np.zeros(self.model.nv))
        pin.computeJointJacobians(self.model, self.data, q)
        pin.updateFramePlacements(self.model, self.data)

    # -- Forces --------------------------------------------------------------------------------------------------------------------------
    def forces(self, x: dict[str, float], v: np.ndarray, tyres: np.ndarray, steering: float, throttle: float) -> np.ndarray:
        """Generalised forces; tyres: fx, fy, fz of the wheels in the frame of the tyre on the ground."""
        p, total = self.p, np.zeros(self.model.nv)
        speed = np.mean([x[f"omega_{wheel}"] for wheel in WHEELS]) / p.driveline_ratio
        drive = throttle * np.interp(speed, [0.0, 2000.0], [1000.0, 0.0]) / p.driveline_ratio / 4
        body = self._turning("body")
        for wheel, force in zip(WHEELS, tyres.T):
            axle = "front" if wheel[0] == "f" else "rear"
            table = [[getattr(p, f"{key}_{axle}_{i}") for i in range(count)] for key, count in (
                ("spring_compression", 24), ("spring_force", 24), ("stop_compression", 12), ("stop_force", 12))]
            for name in ("spring", "damper"):
                way = self.position(f"{name}_lower_{wheel}") - self.position(f"{name}_upper_{wheel}")
                jacobian = self.jacobian(f"{name}_lower_{wheel}")[:3] - self.jacobian(f"{name}_upper_{wheel}")[:3]
                length = np.linalg.norm(way)
                rate = way @ jacobian @ v / length
                if name == "spring":
                    push = (np.interp(getattr(p, f"spring_free_length_{axle}") - length, *table[:2])
                            + np.interp(getattr(p, f"bump_stop_length_{axle}") - length, *table[2:])
                            - np.interp(length - getattr(p, f"rebound_stop_length_{axle}"), *table[2:]))
                else:
                    end = "" if getattr(p, f"damper_shortest_{axle}") <= length <= getattr(p, f"damper_longest_{axle}") else "end_"
                    push = -rate * getattr(p, f"damper_{end}{'rebound' if rate > 0.0 else 'compression'}_{axle}")
                total += push * way @ jacobian / length
            # The tyre on level ground: its point, from the wheel's centre down in the wheel's plane.
            joint = self.joints[f"wheel_{wheel}"]
            upright = self.data.oMi[self.joints[f"upright_{wheel}"]].rotation
            centre, axis = self.data.oMi[joint].translation, upright @ [0.0, 1.0, 0.0]
            along = np.cross(axis, [0.0, 0.0, 1.0])
            along /= np.linalg.norm(along)
            down = np.cross(axis, along)
            point = centre - down * centre[2] / down[2]
            jacobian = pin.getJointJacobian(self.model, self.data, joint, pin.LOCAL_WORLD_ALIGNED)
            at_point = jacobian[:3] - np.cross(np.eye(3), point - centre) @ jacobian[3:]
            total += (force[0] * along + force[1] * np.cross([0.0, 0.0, 1.0], along) + force[2] * np.array([0.0, 0.0, 1.0])) @ at_point
            total += drive * axis @ (jacobian[3:] - body)
        # The steering's spring and damper act on the link's way.
        asked = p.pitman_arm_length * np.sin(p.pitman_arm_lock) * steering
        total[self.place("arm")] += (p.steering_stiffness * (asked - x["link_displacement"]) - p.steering_damping * x["link_rate"]) \
            * np.sqrt(p.pitman_arm_length**2 - x["link_displacement"] ** 2)
        return total

    def _turning(self, joint: str) -> np.ndarray:
        return pin.getJointJacobian(self.model, self.data, self.joints[joint], pin.LOCAL_WORLD_ALIGNED)[3:].copy()

    def accelerations(self, x: dict[str, float], tyres: np.ndarray, steering: float, throttle: float) -> tuple[dict[str, float], float]:
        """Of the multibody's velocities, and the largest gap of a loop."""
        q = self.configuration(x)
        v = self.velocity(q, x)
        mass = pin.crba(self.model, self.data, q)
        mass = np.triu(mass) + np.triu(mass, 1).T
        for wheel in WHEELS:
            place = self.place(f"wheel_{wheel}").start
            mass[place, place] += self.p.axle_inertia
        bias = pin.nonLinearEffects(self.model, self.data, q, v)
        self.update(q, v)
        rows, drift, gap = self.constraints(v)
        count = len(rows)
        whole = np.block([[mass, rows.T], [rows, np.zeros((count, count))]])
        a = np.linalg.solve(whole, np.concatenate([self.forces(x, v, tyres, steering, throttle) - bias, -drift]))
        turn, rate = np.arcsin(x["link_displacement"] / self.p.pitman_arm_length), v[self.place("arm")][0]
        link = self.p.pitman_arm_length * (np.cos(turn) * a[self.place("arm")][0] - np.sin(turn) * rate**2)
        found = dict(zip(("vx", "vy", "vz", "roll_rate", "pitch_rate", "yaw_rate"), a[self.place("body")]), link_rate=link)
        for wheel in WHEELS:
            found[f"arm_rate_{wheel}"] = a[self.place(f"lower_arm_{wheel}")][0]
            found[f"omega_{wheel}"] = a[self.place(f"wheel_{wheel}")][0]
        return found, gap


def states(count: int) -> list[np.ndarray]:
    """Vehicles that fly, land, roll and steer, at random."""
    rng = np.random.default_rng(5)
    spreads = {"x": 5.0, "y": 5.0, "yaw": 3.0, "roll": 0.3, "pitch": 0.3, "vx": 20.0, "vy": 3.0, "vz": 2.0, "roll_rate": 2.0,
               "pitch_rate": 2.0, "yaw_rate": 2.0, "link_displacement": 0.06, "link_rate": 0.5,
               **{f"omega_{wheel}": 60.0 for wheel in WHEELS}, **{f"arm_rate_{wheel}": 3.0 for wheel in WHEELS}}
    found = []
    for _ in range(count):
        x = {name: spread * rng.uniform(-1.0, 1.0) for name, spread in spreads.items()}
        x |= {f"arm_angle_{wheel}": rng.uniform(-0.25, 0.2) for wheel in WHEELS} | {"z": rng.uniform(0.7, 1.2)}
        found.append(np.array([x.get(name, 0.0) for name in NAMES]))
    return found


def test_accelerations_are_those_of_the_tree_with_its_loops() -> None:
    """At 1000 states, to 1e-8 of the largest acceleration of each."""
    tree, functions, p = Tree(VEHICLE), casadi_model(MODEL), VEHICLE.vector(MODEL)
    assert tree.model.nv == 34
    rng, landed, worst = np.random.default_rng(6), 0, 0.0
    for x in states(1000):
        u = np.array([rng.uniform(-1.0, 1.0), rng.uniform(0.0, 1.0), 0.0])
        tyres = np.array(functions.tyre_forces(x, u, p, 0.0)).reshape(3, 4)
        landed += (tyres[2] > 0.0).sum()
        rates = dict(zip(NAMES, np.array(functions.rhs(x, u, p)).ravel()))
        expected, gap = tree.accelerations(dict(zip(NAMES, x)), tyres, u[0], u[1])
        assert gap < 1e-14
        scale = max(map(abs, expected.values()))
        worst = max(worst, *(abs(rates[name] - value) / scale for name, value in expected.items()))
    assert worst < 1e-8
    assert 500 < landed < 3500


# -- What a vehicle left to itself keeps, over seconds of Runge-Kutta's method ------------------------------------------------------------


def driven(vehicle: Vehicle, x: np.ndarray, seconds: float, step: float) -> np.ndarray:
    """The state after a time without inputs."""
    x, slopes = x.copy(), np.zeros((4, len(x)))
    moving = np.array([field.role == "continuous" for field in MODEL.states])
    at = np.empty_like(x)
    rhs = compiled_model_function(MODEL, "rhs").bind(at, np.zeros(3), vehicle.vector(MODEL))
    for _ in range(round(seconds / step)):
        for k, share in enumerate((0.0, 0.5, 0.5, 1.0)):
            at[:] = x + share * step * slopes[k - 1]
            rhs.evaluate()
            slopes[k] = rhs.results[0] * moving
        x += step / 6.0 * (slopes[0] + 2.0 * slopes[1] + 2.0 * slopes[2] + slopes[3])
    return x


def stored(p: SimpleNamespace, stem: str, argument: float, points: int) -> float:
    """Work of a table from 0 to an argument, by its corners."""
    xs, ys = (np.array([getattr(p, f"{name}_{i}") for i in range(points)]) for name in (stem, stem.replace("compression", "force")))
    corners = np.unique([0.0, argument, *xs[(xs > min(0.0, argument)) & (xs < max(0.0, argument))]])
    work = np.trapezoid(np.interp(corners, xs, ys), corners) if len(corners) > 1 else 0.0
    return float(np.sign(argument) * work)


def energy(tree: Tree, x: dict[str, float]) -> float:
    """Kinetic and potential energy, springs, stops, tyres and the steering's spring included [J]."""
    p, q = tree.p, tree.configuration(x)
    v = tree.velocity(q, x)
    total = pin.computeKineticEnergy(tree.model, tree.data, q, v) + pin.computePotentialEnergy(tree.model, tree.data, q)
    total += 0.5 * p.steering_stiffness * x["link_displacement"] ** 2
    tree.update(q, v)
    for wheel in WHEELS:
        axle = "front" if wheel[0] == "f" else "rear"
        length = float(np.linalg.norm(tree.position(f"spring_lower_{wheel}") - tree.position(f"spring_upper_{wheel}")))
        total += stored(p, f"spring_compression_{axle}", getattr(p, f"spring_free_length_{axle}") - length, 24)
        for beyond in (getattr(p, f"bump_stop_length_{axle}") - length, length - getattr(p, f"rebound_stop_length_{axle}")):
            total += stored(p, f"stop_compression_{axle}", max(beyond, 0.0), 12)
        rotation = tree.data.oMi[tree.joints[f"upright_{wheel}"]].rotation
        height = tree.data.oMi[tree.joints[f"wheel_{wheel}"]].translation[2]
        lean = rotation[2, 1]
        total += 0.5 * getattr(p, f"tyre_vertical_stiffness_{axle}") * max(p.wheel_radius - height / np.sqrt(1.0 - lean**2), 0.0) ** 2
        total += 0.5 * p.axle_inertia * x[f"omega_{wheel}"] ** 2
    return float(total)


FREE = {name: 0.0 for name in VEHICLE.parameters if name.startswith("damper_") and not name.endswith(("_x", "_y", "_z"))}
FREE |= {"steering_damping": 0.0, "tyre_vertical_damping_front": 0.0, "tyre_vertical_damping_rear": 0.0, "friction_scale": 0.0}


def test_momentum_is_kept_in_the_air() -> None:
    """A vehicle that tumbles: its momentum changes by the weight alone, the angular one about its centre not."""
    tree, x = Tree(VEHICLE), states(1)[0]
    x[NAMES.index("z")] = 100.0
    names = dict(zip(NAMES, x))

    def momenta(x: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
        q = tree.configuration(x)
        h = pin.computeCentroidalMomentum(tree.model, tree.data, q, tree.velocity(q, x))
        return h.linear.copy(), h.angular.copy()

    linear, angular = momenta(names)
    seconds = 0.5
    after = dict(zip(NAMES, driven(VEHICLE, x, seconds, 1e-4)))
    assert abs(after["arm_angle_fl"] - names["arm_angle_fl"]) > 0.02  # the suspension has moved
    later, later_angular = momenta(after)
    mass = pin.computeTotalMass(tree.model)
    assert mass == pytest.approx(2573.138)
    np.testing.assert_allclose(later, linear - [0.0, 0.0, mass * GRAVITY * seconds], atol=1e-9 * np.abs(linear).max())
    np.testing.assert_allclose(later_angular, angular, atol=2e-8 * np.abs(angular).max())


def test_energy_is_kept_without_dampers_and_friction() -> None:
    """Ten seconds of rolling, bouncing and turning on springs alone: to a millionth."""
    vehicle = VEHICLE.replace(**FREE)
    tree, x = Tree(vehicle), initial_state(MODEL, VEHICLE, vx=10.0)
    for name, change in {"roll": 0.01, "z": 0.01, "pitch_rate": 0.05, "yaw_rate": 0.3}.items():
        x[NAMES.index(name)] += change
    before = energy(tree, dict(zip(NAMES, x)))
    after = driven(vehicle, x, 10.0, 5e-4)
    kinetic = 0.5 * 2573.138 * 10.0**2
    assert before > kinetic
    assert np.abs((after - x)[[NAMES.index(f"arm_angle_{wheel}") for wheel in WHEELS]]).max() > 1e-3
    assert energy(tree, dict(zip(NAMES, after))) == pytest.approx(before, rel=1e-6)
