/* The loop of own_loop.py in C: own_loop PERIODS SPEED YAW_RATE, then the parameters and the state as the header has them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "lfdm_eight_dof.h"

int main(int argc, char **argv) {
  double given[2], p[lfdm_eight_dof_p_count], x[lfdm_eight_dof_x_count], u[lfdm_eight_dof_u_count] = {0};
  const int steps = 10;
  if (argc != 4 + lfdm_eight_dof_p_count + lfdm_eight_dof_x_count) return 2;
  const int periods = atoi(argv[1]);
  for (int i = 0; i < 2; ++i) given[i] = atof(argv[2 + i]);
  for (int i = 0; i < lfdm_eight_dof_p_count; ++i) p[i] = atof(argv[4 + i]);
  for (int i = 0; i < lfdm_eight_dof_x_count; ++i) x[i] = atof(argv[4 + lfdm_eight_dof_p_count + i]);

  double *q = malloc(sizeof(double) * (size_t)lfdm_eight_dof_size());
  struct timespec began, ended;
  lfdm_eight_dof_prepare(p, q);
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (int k = 0; k < periods; ++k) {
    double *steering = &u[lfdm_eight_dof_u_steering];
    *steering = fmin(fmax(*steering + 0.02 * (given[1] - x[lfdm_eight_dof_x_yaw_rate]), -1.0), 1.0);
    u[lfdm_eight_dof_u_throttle] = fmin(fmax(0.5 * (given[0] - x[lfdm_eight_dof_x_vx]), 0.0), 1.0);
    if (!lfdm_eight_dof_advance(x, q, u, u, steps, 1e-3, 1.0 / steps)) return 1;
  }
  clock_gettime(CLOCK_MONOTONIC, &ended);
  const double ns = 1e9 * (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec);
  printf("%.17g %.17g %.17g\n", x[lfdm_eight_dof_x_vx], x[lfdm_eight_dof_x_yaw_rate], ns / (periods * steps));
  free(q);
  return 0;
}
