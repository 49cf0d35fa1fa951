/* A vehicle in a control unit: all memory is fixed, one call a tick. `tick` belongs into the timer of 10 ms; here a loop stands for it.
   Prediction of a controller: from the state that is measured, where is the vehicle in half a second with the inputs kept? */
#include <stdio.h>
#include "vehicle.h"

enum { STEPS = 10, AHEAD = 500 };
static const double STEP = 1e-3; /* [s] */

static struct {
  double x[vehicle_x_count], u[vehicle_u_count];
  double ahead[vehicle_x_count];
  double q[vehicle_q_count];
} plant;

static void set_up(double speed) {
  const double place[vehicle_place_count] = {[vehicle_place_vx] = speed};
  vehicle_start(vehicle_parameters, place, plant.x);
  vehicle_prepare(vehicle_parameters, plant.q);
}

/* Returns 0 where the vehicle's state is no longer finite: then go to a safe state. */
static int tick(double steering, double throttle, double brake) {
  double u[vehicle_u_count];
  for (int i = 0; i < vehicle_u_count; ++i) u[i] = plant.u[i];
  u[vehicle_u_steering] = steering;
  u[vehicle_u_throttle] = throttle;
  u[vehicle_u_brake] = brake;
  int fine = vehicle_advance(plant.x, plant.q, plant.u, u, STEPS, STEP);
  for (int i = 0; i < vehicle_u_count; ++i) plant.u[i] = u[i];
  for (int i = 0; i < vehicle_x_count; ++i) plant.ahead[i] = plant.x[i];
  return fine && vehicle_advance(plant.ahead, plant.q, u, u, AHEAD, STEP);
}

int main(void) {
  set_up(15.0);
  for (int k = 0; k < 500; ++k) {
    /* Hold the speed; brake if in half a second the vehicle is more than 2 m beside the axis x. */
    const double aside = plant.ahead[vehicle_x_y], error = 15.0 - plant.x[vehicle_x_vx];
    const int brakes = aside > 2.0 || aside < -2.0;
    if (!tick(k < 100 ? 0.0 : 0.05, !brakes && error > 0.0 ? 0.5 * error : 0.0, brakes ? 0.3 : 0.0)) return 1;
  }
  printf("%.3f m beside, %.3f m/s\n", plant.x[vehicle_x_y], plant.x[vehicle_x_vx]);
  return 0;
}
