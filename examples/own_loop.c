/* The loop of own_loop.py in C: own_loop PERIODS START_SPEED SPEED YAW_RATE, with the vehicle that is exported as `vehicle`. */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "vehicle.h"

int main(int argc, char **argv) {
  double given[3], place[vehicle_place_count] = {0}, x[vehicle_x_count], q[vehicle_q_count], u[vehicle_u_count] = {0};
  const int steps = 10;
  if (argc != 5) return 2;
  const int periods = atoi(argv[1]);
  for (int i = 0; i < 3; ++i) given[i] = atof(argv[2 + i]);

  struct timespec began, ended;
  place[vehicle_place_vx] = given[0];
  vehicle_start(vehicle_parameters, place, x);
  vehicle_prepare(vehicle_parameters, q);
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (int k = 0; k < periods; ++k) {
    double *steering = &u[vehicle_u_steering];
    *steering = fmin(fmax(*steering + 0.02 * (given[2] - x[vehicle_x_yaw_rate]), -1.0), 1.0);
    u[vehicle_u_throttle] = fmin(fmax(0.5 * (given[1] - x[vehicle_x_vx]), 0.0), 1.0);
    if (!vehicle_advance(x, q, u, u, steps, 1e-3)) return 1;
  }
  clock_gettime(CLOCK_MONOTONIC, &ended);
  const double ns = 1e9 * (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec);
  printf("%.9f %.9f %.17g\n", x[vehicle_x_vx], x[vehicle_x_yaw_rate], ns / (periods * steps));
  return 0;
}
