"""Single-gear powertrain with a torque-speed map and open differentials on four wheels, and wheel brakes (paper 000 section 3.3.1)."""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Field

MAP_POINTS = 6

PARAMETERS = (
    Field("driveline_ratio", "1", "wheel speed over motor speed", "", 0.0, 10.0, True),
    *(Field(f"motor_speed_{i}", "rad/s", f"torque map, speed of point {i}", "", 0.0, 1e5)
      for i in range(MAP_POINTS)),
    *(Field(f"motor_torque_{i}", "N*m", f"torque map, full-throttle torque of point {i}", "", -1e5, 1e5)
      for i in range(MAP_POINTS)),
    Field("brake_torque_front", "N*m", "brake torque of one front wheel at full brake", "", 0.0, 1e5),
    Field("brake_torque_rear", "N*m", "brake torque of one rear wheel at full brake", "", 0.0, 1e5),
)


def build(m: Any) -> Any:
    """Returns `motor_speed(omega, p)` [rad/s], omega of four wheels, and `wheel_torque(motor_speed, throttle, p)` [N m] at each wheel."""
    fn, fmin, fmax = m.fn, m.fmin, m.fmax

    @fn
    def segment(x, x0, x1, y0, y1):
        # Rise of a piecewise linear map over one segment; a repeated point (x1 = x0, y1 = y0) adds nothing.
        return (y1 - y0) * fmin(fmax((x - x0) / fmax(x1 - x0, 1e-9), 0.0), 1.0)

    @fn
    def torque_map(w, p):
        return (p.motor_torque_0
                + segment(w, p.motor_speed_0, p.motor_speed_1, p.motor_torque_0, p.motor_torque_1)
                + segment(w, p.motor_speed_1, p.motor_speed_2, p.motor_torque_1, p.motor_torque_2)
                + segment(w, p.motor_speed_2, p.motor_speed_3, p.motor_torque_2, p.motor_torque_3)
                + segment(w, p.motor_speed_3, p.motor_speed_4, p.motor_torque_3, p.motor_torque_4)
                + segment(w, p.motor_speed_4, p.motor_speed_5, p.motor_torque_4, p.motor_torque_5))

    @fn
    def motor_speed(omega, p):
        # Open differentials: the motor turns with the mean of the wheels.
        return 0.25 * (omega[0] + omega[1] + omega[2] + omega[3]) / p.driveline_ratio

    @fn
    def wheel_torque(speed, throttle, p):
        return 0.25 * throttle * torque_map(speed, p) / p.driveline_ratio

    return m.namespace(motor_speed=motor_speed, wheel_torque=wheel_torque)
