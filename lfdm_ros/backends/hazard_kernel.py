"""Closed-loop rollout of many vehicles that detects collision, wheel lift, spin and departure from the corridor.

Steps, steering, wheel loads and distances are one graph, compiled for vehicles in SIMD lanes or GPU threads: no trajectory leaves the
registers and the stack of its block.
"""

from collections.abc import Callable
from ctypes import c_int64
from dataclasses import dataclass
from functools import partial
from typing import Any

import casadi as ca
import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.gpu_batch import table_columns
from lfdm_ros.backends.gpu_launch import TABLE_POINTERS, VEHICLES, ByVehicle, GpuKernel, Result, Shared
from lfdm_ros.backends.loops import Carried, Linear, Slot, interval
from lfdm_ros.backends.trajectory_kernels import once
from lfdm_ros.compiler.emitter import Code
from lfdm_ros.compiler.graph import graph_of
from lfdm_ros.compiler.machine_code import GPU, INTEGER, POINTER, TRIPLE, assembly, here, machine_code
from lfdm_ros.compiler.reading import TABLES
from lfdm_ros.models import Model
from lfdm_ros.models.spinning import SLOW

FAR = 1e6  # [m], [N], [s]: no event
# Results of each vehicle. clearance [m]: minimum distance from circles and walls; room [m]: from borders of the corridor; steady [m/s]:
# minimum margin of the lateral velocity to a spin; *_at [s]: time of the first such sample, FAR without; hit_speed [m/s]: vx at the hit,
# 0 without.
RESULTS = ("clearance", "room", "least_load", "steady", "hit_at", "left_at", "lifted_at", "spun_at", "hit_speed", "finite")
# Columns of the obstacles at one sample: a circle with the standard deviations of its position and of its motion until then; an edge by
# its midpoint, half vector, unit normal, and 1 for a border of the corridor, 0 for a wall.
CIRCLE = ("x", "y", "radius", "sd", "drift")
EDGE = ("x", "y", "half_x", "half_y", "normal_x", "normal_y", "border")
NORMALS = 4  # standard normal numbers of a vehicle for a circle: position and drift, along x and y
# Reference and feedback gains at a sample; inputs are steering and pedal, negative pedal brakes.
REFERENCE = ("x", "y", "yaw", "speed", "gain_along", "gain_across", "gain_heading", "gain_speed", "yaw_rate", "gain_rate")
DRIVEN = 2  # steering and pedal
GAINS = ("across", "heading", "yaw_rate")  # of a vehicle's driver, as factors of those of the reference
# Common to all vehicles: outline [m], rates of steering and pedal [1/s], tangent of the sideslip angle of a spin, direction 1 forwards or
# -1 reverse, time between samples and of a step [s].
NUMBERS = ("front", "rear", "half_width", "steering_rate", "pedal_up", "pedal_down", "spin", "direction", "interval", "step")


@dataclass(frozen=True)
class HazardKernel:
    """Vehicles of one model, `lanes` of them in each SIMD vector; arrays of `dtype` in C order.

    run(p (NP, N), x0 (NX, N), setpoint (K, 2, N), gains (3, N), delays (N,) int64, lag (H,), reference (K, 10), numbers (10,), circles
        (M, 5), first_circle (K + 1,) int64, normal_rows (M,) int64, normals (R, 4, N), edges (E, 7), first_edge (K + 1,) int64,
        substeps, results (10, N), first, end)
    runs the vehicles first ... end - 1, both multiples of `lanes`. From sample k on the inputs move to `setpoint` of sample k + 1 at the
    rates in `numbers`. Lateral, heading and yaw rate errors to the reference of sample k, times the gains of reference and driver, correct
    the steering from sample k + delay on, with weights `lag`; delays, at least 1, are equal in each block of `lanes`. Corrections are added
    to `setpoint` in place. Circles and edges of sample k are the rows first[k] ... first[k + 1] - 1. Releases the GIL. `pieces`: calls in
    parallel that divide a batch best.
    """

    lanes: int
    dtype: type
    run: Callable[..., None]
    pieces: int


@once
def hazard_kernel(model: Model, real: str = "float", lanes: int = 0, backend: str = "cpu") -> HazardKernel:
    """Returns the kernel in precision `real` (double or float), compiled on first use; `lanes` 0: those of this machine's registers;
    backend: cpu or gpu. Raises ValueError: the model has other inputs than the driver's; InputError: no GPU, or it cannot run the model."""
    if len(model.inputs) != 3:
        raise ValueError(f"{model.name} has {len(model.inputs)} inputs; a hazard kernel needs the driver's three")
    dtype = np.float32 if real == "float" else np.float64
    if backend == "gpu":
        tables = table_columns(model)
        ptx = assembly(f"gpu hazard {casadi_model(model).digest} {real}", lambda: hazard_text(model, real, 1, threads=True), GPU)
        kernel = GpuKernel(ptx, "follow")
        return HazardKernel(1, dtype, partial(_run_on_gpu, kernel, tables, real), 1)
    lanes = lanes or here().lanes(real, casadi_model(model).registers(real))
    code = machine_code(f"hazard {casadi_model(model).digest} {real} {lanes}", lambda: hazard_text(model, real, lanes), here())
    call = code.function("follow", [POINTER] * 15 + [INTEGER] * 6)

    def run(*arguments: Any) -> None:
        *arrays, substeps, results, first, end = arguments
        p, _, setpoint, _, _, lag, *_ = arrays
        if first % lanes or end % lanes or not 0 <= first <= end <= p.shape[1]:
            raise ValueError(f"hazard kernel: vehicles {first} to {end} are not whole blocks of {lanes}")
        if first < end:
            call(*(a.ctypes.data for a in (*arrays, results)), p.shape[1], len(setpoint), len(lag), substeps, first, end)

    return HazardKernel(lanes, dtype, run, 8)


def _run_on_gpu(kernel: GpuKernel, tables: tuple[int, ...], real: str, *arguments: Any) -> None:
    p, *by_vehicle, lag, reference, numbers, circles, first_circle, normal_rows, normals, edges, first_edge = arguments[:-4]
    substeps, results, first, end = arguments[-4:]
    samples, part = len(by_vehicle[1]), slice(first, end)
    if first < end:
        kernel.run([ByVehicle(p[:, part], tables, real), *(ByVehicle(array[..., part]) for array in by_vehicle),
                    *map(Shared, (lag, reference, numbers, circles, first_circle, normal_rows)),
                    ByVehicle(normals[..., part]), Shared(edges), Shared(first_edge), Result(results[:, part]), VEHICLES,
                    *map(c_int64, (samples, len(lag), substeps, 0)), VEHICLES, TABLE_POINTERS], substeps * (samples - 1))


def _sample_function(model: Model) -> ca.Function:
    """Returns the equations of a sample: step; steering correction; steering and pedal; minimum wheel load and distances from a circle and
    an edge."""
    functions = casadi_model(model)
    names = [field.name for field in model.states]
    x, u, p, h = ca.SX.sym("x", len(names)), ca.SX.sym("u", 3), ca.SX.sym("p", len(model.parameters)), ca.SX.sym("h")
    now, driven, setpoint = ca.SX.sym("now", len(names)), ca.SX.sym("driven", DRIVEN), ca.SX.sym("setpoint", DRIVEN)
    reference, numbers = ca.SX.sym("reference", len(REFERENCE)), ca.SX.sym("numbers", len(NUMBERS))
    gains = ca.SX.sym("gains", len(GAINS))
    circle, normals, edge = ca.SX.sym("circle", len(CIRCLE)), ca.SX.sym("normals", NORMALS), ca.SX.sym("edge", len(EDGE))
    front, rear, half_width, steering_rate, pedal_up, pedal_down, spin, direction, span, _ = ca.vertsplit(numbers)
    px, py, yaw, vx = (now[names.index(name)] for name in ("x", "y", "yaw", "vx"))
    c, s = ca.cos(yaw), ca.sin(yaw)

    # Rate-limited inputs with feedback of the deviation from the reference (axes of the reference, x forward).
    rx, ry, ryaw, rv, along, across, heading, speed, turning, rate = ca.vertsplit(reference)
    rc, rs = ca.cos(ryaw), ca.sin(ryaw)
    ex, ey = rc * (px - rx) + rs * (py - ry), rc * (py - ry) - rs * (px - rx)
    correction = -gains[0] * across * ey - gains[1] * heading * (s * rc - c * rs) \
        - gains[2] * rate * (now[names.index("yaw_rate")] - turning)
    steering = _bounded(setpoint[0], -1.0, 1.0)
    pedal = _bounded(setpoint[1] - direction * (along * ex + speed * (vx - rv)), -1.0, 1.0)
    steering = _bounded(steering, driven[0] - span * steering_rate, driven[0] + span * steering_rate)
    pedal = _bounded(pedal, driven[1] - span * pedal_down, driven[1] + span * pedal_up)

    loads = functions.wheel_loads(now, inputs_of(driven, direction), p)
    min_load = loads[0]
    for i in range(1, loads.numel()):
        min_load = ca.fmin(min_load, loads[i])
    vy = now[names.index("vy")] if "vy" in names else ca.SX(0.0)
    steady = spin * ca.fmax(ca.fabs(vx), SLOW) - ca.fabs(vy)

    # Distance of the circle from the vehicle's rectangle, in its axes.
    half_length, middle = 0.5 * (front + rear), 0.5 * (front - rear)
    mx, my = px + c * middle, py + s * middle
    cx, cy, radius, sd, drift = ca.vertsplit(circle)
    dx, dy = cx + sd * normals[0] + drift * normals[2] - mx, cy + sd * normals[1] + drift * normals[3] - my
    beyond_x, beyond_y = ca.fabs(c * dx + s * dy) - half_length, ca.fabs(c * dy - s * dx) - half_width
    out_x, out_y = ca.fmax(beyond_x, 0.0), ca.fmax(beyond_y, 0.0)
    from_circle = ca.sqrt(out_x * out_x + out_y * out_y) + ca.fmin(ca.fmax(beyond_x, beyond_y), 0.0) - radius

    # Separating axes of a segment and a rectangle (Gottschalk et al. 1996): the largest of three gaps is at most their distance, and 0 or
    # less where they intersect.
    x_, y_, hx, hy, nx, ny, border = ca.vertsplit(edge)
    dx, dy = x_ - mx, y_ - my
    gaps = (ca.fabs(c * dx + s * dy) - half_length - ca.fabs(c * hx + s * hy),
            ca.fabs(c * dy - s * dx) - half_width - ca.fabs(c * hy - s * hx),
            ca.fabs(nx * dx + ny * dy) - half_length * ca.fabs(nx * c + ny * s) - half_width * ca.fabs(ny * c - nx * s))
    from_edge = ca.fmax(ca.fmax(gaps[0], gaps[1]), gaps[2])
    return ca.Function("sample", [x, u, p, h, now, driven, setpoint, gains, reference, numbers, circle, normals, edge],
                       [ca.densify(functions.step(x, u, p, h)), correction, ca.vertcat(steering, pedal), inputs_of(driven, direction),
                        inputs_of(ca.vertcat(steering, pedal), direction), min_load, steady, from_circle,
                        from_edge + FAR * border, from_edge + FAR * (1.0 - border)])


def inputs_of(driven: ca.SX, direction: ca.SX) -> ca.SX:
    """Converts steering and pedal to steering, throttle and brake; `direction`: 1 forwards, -1 in reverse."""
    return ca.vertcat(driven[0], direction * ca.fmax(driven[1], 0.0), ca.fmax(-driven[1], 0.0))


def _bounded(value: ca.SX, lower: ca.SX | float, upper: ca.SX | float) -> ca.SX:
    return ca.fmin(ca.fmax(value, lower), upper)


def hazard_text(model: Model, real: str, lanes: int, threads: bool = False) -> str:
    """Returns the LLVM module of the kernel, `threads`: for a GPU."""
    graph = graph_of(_sample_function(model))
    xs, us, ps, (h,), now, driven, setpoint, gains, reference, numbers, circle, normals, edge = graph.inputs
    following, (correction,), steered, acting, next_inputs, (load,), (steady,), (from_circle,), (from_wall,), (from_border,) = graph.outputs
    ends = [*following, correction, *steered, *acting, *next_inputs, load, steady, from_circle, from_wall, from_border]
    needed = graph.reachable(ends)
    of_step, of_sample = graph.depends([*xs, *us]), graph.depends([*now, *driven, *setpoint, *reference])
    depends_on_setpoint = graph.depends(setpoint)
    of_circle, of_edge = graph.depends([*circle, *normals]), graph.depends(edge)
    constant = [i for i in needed if not (of_step[i] or of_sample[i] or of_circle[i] or of_edge[i])]
    arrays = ("p", "x0", "setpoint", "gains", "delays", "lag", "reference", "numbers", "circles", "first_circle", "normal_rows", "normals",
              "edges", "first_edge", "results")
    counts = ("vehicles", "samples", "lags", "substeps", "first", "end")
    outside = TABLES[real] if threads else ()
    code = Code(graph, dict.fromkeys(arrays, "ptr") | dict.fromkeys(counts, "i64") | dict.fromkeys(outside, "ptr"), real=real, lanes=lanes,
                threads=threads)
    value, moves = code.value, now[[field.name for field in model.states].index("vx")]
    # Nodes that a loop shares with its surroundings are computed outside of it.
    code.jump(needed, [*ends, *constant, *(i for i in needed if of_sample[i])])

    def same(array: str, place: int | str) -> str:
        return code.repeated(code.load(array, place, real), value)

    def splat(number: float) -> str:
        return code.number(number, lanes)

    for i, node in enumerate(numbers):
        code.bind(node, same("%numbers", i))
    code.bind(h, same("%numbers", NUMBERS.index("step")))
    span = code.load("%numbers", NUMBERS.index("interval"), real)
    rise = code.repeated(code.new(f"fdiv {real} {code.number(1.0)}, {code.new(f'uitofp i64 %substeps to {real}')}"), value)
    carried = Carried(code, [Slot(value, before, after) for before, after in zip(xs, following)])
    values, inputs = code.variables(value, len(RESULTS)), code.variables(value, DRIVEN)
    places = {name: i for i, name in enumerate(RESULTS)}

    with code.blocks("%first", "%end", lanes) as block:

        def of_block(array: str, row: int | str) -> str:
            """Returns this block's vehicles in a row of an array (rows, N)."""
            return code.load(code.element(array, code.integer("add", code.integer("mul", "%vehicles", row), block), real), 0, value)

        for column, node in enumerate(ps):
            code.bind(node, of_block("%p", column))
        for i, node in enumerate(gains):
            code.bind(node, of_block("%gains", i))
        delay = code.load("%delays", block, "i64")
        code.emit(constant)
        for k in range(len(xs)):
            carried.set(k, of_block("%x0", k))
        for i in range(DRIVEN):
            code.store(of_block("%setpoint", i), inputs, i, value)
        for name, i in places.items():
            code.store(splat(0.0 if name in ("finite", "hit_speed") else FAR), values, i, value)

        with code.loop("0", "%samples") as sample:
            time = code.repeated(code.new(f"fmul {real} {span}, {code.new(f'uitofp i64 {sample} to {real}')}"), value)

            def note(measure: str, measure_name: str, since: str, speed: str = "") -> None:
                """Updates the minimum of a measure, and the first time at which it is not above 0, with the speed then."""
                at, place = (code.load(values, places[name], value) for name in (since, measure_name))
                code.store(_smaller(code, measure, place), values, places[measure_name], value)
                over = code.new(f"fcmp ole {value} {measure}, {splat(0.0)}")
                if speed:
                    begins = code.new(f"and {code.vector('i1', lanes)} {over}, {code.new(f'fcmp olt {value} {time}, {at}')}")
                    before = code.load(values, places[speed], value)
                    code.store(code.new(f"select {code.vector('i1', lanes)} {begins}, {value} {code.get(moves)}, {value} {before}"), values,
                               places[speed], value)
                first = code.new(f"select {code.vector('i1', lanes)} {over}, {value} {_smaller(code, time, at)}, {value} {at}")
                code.store(first, values, places[since], value)

            for k, node in enumerate(now):
                code.bind(node, carried.get(k))
            for i, node in enumerate(driven):
                code.bind(node, code.load(inputs, i, value))
            for i, node in enumerate(reference):
                code.bind(node, same("%reference", code.integer("add", code.integer("mul", sample, len(REFERENCE)), i)))
            following_sample = code.integer("add", sample, 1)
            last = code.new(f"icmp slt i64 {following_sample}, %samples")
            ahead = code.new(f"select i1 {last}, i64 {following_sample}, i64 {sample}")
            of_this = [i for i in needed if of_sample[i] and not (of_step[i] or of_circle[i] or of_edge[i])]
            code.emit(i for i in of_this if not depends_on_setpoint[i])
            corrected = code.get(correction)
            with code.loop("0", "%lags") as share:
                answer = code.integer("add", code.integer("add", sample, delay), share)
                with code.when(code.new(f"icmp slt i64 {answer}, %samples")):
                    row = code.integer("mul", answer, DRIVEN)
                    part = code.arithmetic("fmul", corrected, same("%lag", share), value)
                    place = code.element("%setpoint", code.integer("add", code.integer("mul", "%vehicles", row), block), real)
                    code.store(code.arithmetic("fadd", code.load(place, 0, value), part, value), place, 0, value)
            for i, node in enumerate(setpoint):
                code.bind(node, of_block("%setpoint", code.integer("add", code.integer("mul", ahead, DRIVEN), i)))
            code.emit(i for i in of_this if depends_on_setpoint[i])
            note(code.get(load), "least_load", "lifted_at")
            note(code.get(steady), "steady", "spun_at")

            def each(first: str) -> tuple[str, str, str]:
                begin = code.load(first, sample, "i64")
                finish = code.load(first, following_sample, "i64")
                return begin, finish, code.new(f"icmp slt i64 {begin}, {finish}")

            begin, finish, nonempty = each("%first_circle")
            with code.when(nonempty), code.loop(begin, finish) as row:
                for i, node in enumerate(circle):
                    code.bind(node, same("%circles", code.integer("add", code.integer("mul", row, len(CIRCLE)), i)))
                numbers_of = code.integer("mul", code.load("%normal_rows", row, "i64"), NORMALS)
                for i, node in enumerate(normals):
                    code.bind(node, of_block("%normals", code.integer("add", numbers_of, i)))
                code.emit(i for i in needed if of_circle[i])
                note(code.get(from_circle), "clearance", "hit_at", "hit_speed")
            begin, finish, nonempty = each("%first_edge")
            with code.when(nonempty), code.loop(begin, finish) as row:
                for i, node in enumerate(edge):
                    code.bind(node, same("%edges", code.integer("add", code.integer("mul", row, len(EDGE)), i)))
                code.emit(i for i in needed if of_edge[i])
                note(code.get(from_wall), "clearance", "hit_at", "hit_speed")
                note(code.get(from_border), "room", "left_at")

            with code.when(last):
                before, after = ([code.get(node) for node in nodes] for nodes in (acting, next_inputs))
                reached = [code.get(node) for node in steered]
                moving = Linear.between(code, us, (casadi_model(model).input_time,), before, after, rise)
                interval(code, carried, [moving], [i for i in needed if of_step[i]], "%substeps")
                for i, register in enumerate(reached):
                    code.store(register, inputs, i, value)

        total = splat(0.0)
        for k in range(len(xs)):
            total = code.arithmetic("fadd", total, code.arithmetic("fmul", carried.get(k), splat(0.0), value), value)
        finite = code.new(f"fcmp ord {value} {total}, {splat(0.0)}")
        code.store(code.new(f"uitofp {code.vector('i1', lanes)} {finite} to {value}"), values, places["finite"], value)
        for i in range(len(RESULTS)):
            place = code.element("%results", code.integer("add", code.integer("mul", "%vehicles", i), block), real)
            code.store(code.load(values, i, value), place, 0, value)
    return code.text("follow", TRIPLE)


def _smaller(code: Code, a: str, b: str) -> str:
    """Returns the smaller of two, b where a is NaN."""
    t = code.value
    return code.new(f"select {t.replace(code.real, 'i1')} {code.new(f'fcmp olt {t} {a}, {b}')}, {t} {a}, {t} {b}")
