/* Ten seconds of driving, a line each half second: time, place, speed, yaw rate. The vehicle is one that is exported under the name
   `vehicle` (see Makefile). */
#include <stdio.h>
#include "vehicle.h"

int main(void) {
  const double place[vehicle_place_count] = {[vehicle_place_vx] = 10.0};
  double x[vehicle_x_count], q[vehicle_q_count], u0[vehicle_u_count] = {0}, u1[vehicle_u_count] = {0};
  vehicle_start(vehicle_parameters, place, x);
  vehicle_prepare(vehicle_parameters, q);
  for (int k = 0; k < 20; ++k) {
    u1[vehicle_u_steering] = k % 8 < 4 ? 0.1 : -0.1;
    u1[vehicle_u_throttle] = 0.3;
    if (!vehicle_advance(x, q, u0, u1, 500, 1e-3)) return 1;
    for (int i = 0; i < vehicle_u_count; ++i) u0[i] = u1[i];
    printf("%4.1f %9.3f %8.3f %7.3f %8.4f\n", 0.5 * (k + 1), x[vehicle_x_x], x[vehicle_x_y], x[vehicle_x_vx], x[vehicle_x_yaw_rate]);
  }
  return 0;
}
