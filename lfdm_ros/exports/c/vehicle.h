/* One vehicle behind an interface: its variables by number, and what is done with them. `model.h`, which is written for each export, says
   how many there are, their start values and bounds, and declares the functions of the equations. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Variables by value reference: inputs, outputs, states, their derivatives, parameters, the place of a start, the longest step [s].
   Then those that are not numbers of this array. */
enum {
  U = 0, Y = U + NU, X = Y + NY, D = X + NX, P = D + NX, PLACE = P + NP, STEP = PLACE + NPLACE, COUNT = STEP + 1,
  LINEAR = COUNT, TIME
};

typedef enum { BEFORE, RUNNING } Phase;

/* All that a run depends on: what is saved and restored. */
typedef struct {
  double time, v[COUNT];
  double slopes[NU]; /* of the inputs over the next step */
  double last[NU];   /* inputs at the end of the last step */
  int64_t linear, phase;
} State;

typedef struct {
  State s;
  const Functions *f;
  double *q;        /* what `prepare` makes of the parameters */
  int exchange;     /* model exchange: held states are solved for, outputs are those of an instant */
  int changed;      /* parameters, since q */
  int stale;        /* derivatives and outputs */
  char message[256];
} Vehicle;

static int fail(Vehicle *c, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(c->message, sizeof c->message, format, values);
  va_end(values);
  return 0;
}

static void reset(Vehicle *c) {
  memset(&c->s, 0, sizeof c->s);
  memcpy(c->s.v, START, sizeof START);
  c->changed = c->stale = 1;
}

static Vehicle *make(int exchange) {
  Vehicle *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->f = functions();
  c->q = calloc((size_t)c->f->size() + 1, sizeof(double));
  if (!c->q) {
    free(c);
    return NULL;
  }
  c->exchange = exchange;
  reset(c);
  return c;
}

static void discard(Vehicle *c) {
  if (c) free(c->q);
  free(c);
}

/* Solves a x = b in place, n x n by rows, by Gauss with pivots; 0 where a is singular. */
static int solve(int n, double *a, double *b) {
  for (int k = 0; k < n; k++) {
    int pivot = k;
    for (int i = k + 1; i < n; i++)
      if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
    if (!(fabs(a[pivot * n + k]) > 1e-300)) return 0;
    for (int j = 0; j < n; j++) {
      double t = a[k * n + j];
      a[k * n + j] = a[pivot * n + j], a[pivot * n + j] = t;
    }
    double t = b[k];
    b[k] = b[pivot], b[pivot] = t;
    for (int i = k + 1; i < n; i++) {
      double share = a[i * n + k] / a[k * n + k];
      for (int j = k; j < n; j++) a[i * n + j] -= share * a[k * n + j];
      b[i] -= share * b[k];
    }
  }
  for (int k = n - 1; k >= 0; k--) {
    for (int j = k + 1; j < n; j++) b[k] -= a[k * n + j] * b[j];
    b[k] /= a[k * n + k];
  }
  return 1;
}

/* Writes the derivatives of `rows` of the slopes by the states `columns`, n each, into a. */
static void slopes_by(const Vehicle *c, const double *x, const double *u, double h, int n, const int *rows, const int *columns, double *a) {
  static const double none[NU + NP + 1];
  for (int j = 0; j < n; j++) {
    double seed[NX] = {0}, dx[NX], y[NY];
    seed[columns[j]] = 1.0;
    c->f->forward(x, u, c->s.v + P, &h, seed, none, none, dx, y);
    for (int i = 0; i < n; i++) a[i * n + j] = dx[rows[i]];
  }
}

/* Newton's method for the rest of a vehicle whose parameters are not those that REST is for, or for held accelerations. */
static int newton(const Vehicle *c, double *x, const double *u, int n, const int *rows, const int *columns, double tolerance, double most) {
  static const double instant = 0.0;
  for (int iteration = 0; iteration < 60; iteration++) {
    double dx[NX], y[NY], a[NN * NN], b[NN], largest = 0.0, change = 0.0;
    c->f->evaluate(x, u, c->s.v + P, &instant, dx, y);
    for (int i = 0; i < n; i++) {
      b[i] = dx[rows[i]];
      if (!isfinite(b[i])) return 0;
      largest = fmax(largest, fabs(b[i]) / (1.0 + fabs(x[columns[i]])));
    }
    if (largest < tolerance) return 1;
    slopes_by(c, x, u, instant, n, rows, columns, a);
    if (!solve(n, a, b)) return 0;
    for (int i = 0; i < n; i++) change = fmax(change, fabs(b[i]));
    for (int i = 0; i < n; i++) x[columns[i]] -= b[i] * (change > most ? most / change : 1.0);
  }
  return 0;
}

static int start(Vehicle *c) {
  double rest[NX];
  memcpy(rest, REST, sizeof rest);
  if (NREST && memcmp(c->s.v + P, START + P, NP * sizeof(double))) {
    if (!newton(c, rest, START + U, NREST, RATES, RESTING, 1e-9, 0.05)) return fail(c, "with these parameters the vehicle finds no rest");
    double dx[NX], y[NY], instant = 0.0;
    c->f->evaluate(rest, START + U, c->s.v + P, &instant, dx, y);
    for (int i = 0; i < NH; i++) rest[HELD[i]] += dx[HELD[i]];
  }
  c->f->start(c->s.v + P, c->s.v + PLACE, rest, c->s.v + X);
  return 1;
}

/* Brings derivatives and outputs up to date. */
static int evaluate(Vehicle *c) {
  double *v = c->s.v, h = c->exchange ? 0.0 : v[STEP];
  if (!c->stale) return 1;
  if (c->s.phase == BEFORE && !start(c)) return 0;
  if (NH && c->exchange && !newton(c, v + X, v + U, NH, HELD, HELD, 1e-12, INFINITY))
    return fail(c, "the held accelerations have no solution at t = %g s", c->s.time);
  c->f->evaluate(v + X, v + U, v + P, &h, v + D, v + Y);
  c->stale = 0;
  return 1;
}

static int get(Vehicle *c, uint32_t reference, double *value) {
  if (reference == TIME) return *value = c->s.time, 1;
  if (reference >= COUNT) return fail(c, "no number has the value reference %u", (unsigned)reference);
  int computed = reference >= Y && reference < P;
  if (computed && !(reference >= X && reference < D && c->s.phase != BEFORE && !(NH && c->exchange)) && !evaluate(c)) return 0;
  *value = c->s.v[reference];
  return 1;
}

static int set(Vehicle *c, uint32_t reference, double value) {
  int input = reference < Y, place = reference >= PLACE && reference < COUNT, state = reference >= X && reference < D;
  if (reference >= COUNT || (reference >= Y && reference < P && !state))
    return fail(c, "no number that can be set has the value reference %u", (unsigned)reference);
  if (!isfinite(value)) return fail(c, "%s: %g is not a finite number", NAMES[reference], value);
  if (place && c->s.phase != BEFORE) return fail(c, "%s is for the start; reset first", NAMES[reference]);
  if (state && c->s.phase == BEFORE) return fail(c, "%s follows from where the vehicle starts", NAMES[reference]);
  if (!state && !(LOWER[reference] <= value && value <= UPPER[reference]))
    return fail(c, "%s = %g is outside [%g, %g]", NAMES[reference], value, LOWER[reference], UPPER[reference]);
  c->s.v[reference] = value;
  c->stale = 1;
  c->changed |= !input && !state && !place;
  return 1;
}

static int begin(Vehicle *c) {
  c->stale = 1;
  if (!evaluate(c)) return 0;
  memcpy(c->s.last, c->s.v + U, sizeof c->s.last);
  c->s.phase = RUNNING;
  return 1;
}

/* Advances by `interval` seconds in equal steps that are not longer than STEP. On failure the state is that before. */
static int advance(Vehicle *c, double time, double interval) {
  double *v = c->s.v, before[NX], from[NU], to[NU];
  if (c->s.phase != RUNNING) return fail(c, "the vehicle does not run");
  if (!(interval > 0.0) || !isfinite(interval)) return fail(c, "a step of %g s: give more than 0", interval);
  if (!(fabs(time - c->s.time) <= 1e-9 * fmax(1.0, fabs(time)))) return fail(c, "a step from t = %.9g s, but it is %.9g s", time, c->s.time);
  double count = ceil(interval / v[STEP] - 1e-9), h;
  if (count > 1e12) return fail(c, "%g s are too many steps of %g s", interval, v[STEP]);
  count = fmax(count, 1.0);
  h = interval / count;
  if (fabs(h - v[STEP]) <= 1e-12 * v[STEP]) h = v[STEP]; /* the same bits, however the interval was rounded */
  for (int i = 0; i < NU; i++) {
    from[i] = c->s.linear ? c->s.last[i] : v[U + i];
    to[i] = v[U + i] + c->s.slopes[i] * interval;
    if (!(LOWER[U + i] <= to[i] && to[i] <= UPPER[U + i])) return fail(c, "%s would come to %g by its slope, outside [%g, %g]", NAMES[U + i],
                                                                       to[i], LOWER[U + i], UPPER[U + i]);
  }
  if (c->changed) c->f->prepare(v + P, c->q), c->changed = 0;
  memcpy(before, v + X, sizeof before);
  if (!c->f->advance(v + X, c->q, from, to, (int64_t)count, h, 1.0 / count)) {
    memcpy(v + X, before, sizeof before);
    return fail(c, "the simulation diverges, or a wheel leaves the reach of its linkage, before t = %.6g s", c->s.time + interval);
  }
  memcpy(v + U, to, sizeof to);
  memcpy(c->s.last, to, sizeof to);
  memset(c->s.slopes, 0, sizeof c->s.slopes);
  c->s.time = time + interval;
  c->stale = 1;
  return 1;
}

static int known_place(Vehicle *c, uint32_t reference, double **where, double *sx, double *su, double *sp) {
  if (reference < Y) *where = su + reference - U;
  else if (reference >= X && reference < D) *where = sx + reference - X;
  else if (reference >= P && reference < PLACE) *where = sp + reference - P;
  else return fail(c, "no derivative by the value reference %u", (unsigned)reference);
  return 1;
}

static int unknown_place(Vehicle *c, uint32_t reference, double **where, double *dx, double *y) {
  if (reference >= Y && reference < X) *where = y + reference - Y;
  else if (reference >= D && reference < P) *where = dx + reference - D;
  else return fail(c, "no derivative of the value reference %u", (unsigned)reference);
  return 1;
}

/* Derivatives of unknowns (outputs, derivatives of states) in a direction of knowns (inputs, states, parameters). In model exchange held
   states follow the others by the theorem of implicit functions. */
static int directional(Vehicle *c, size_t n, const uint32_t *unknowns, size_t m, const uint32_t *knowns, const double *seed, double *result) {
  double sx[NX] = {0}, su[NU] = {0}, sp[NP + 1] = {0}, dx[NX], y[NY], *place, *v = c->s.v, h = c->exchange ? 0.0 : v[STEP];
  if (!evaluate(c)) return 0;
  for (size_t j = 0; j < m; j++) {
    if (!known_place(c, knowns[j], &place, sx, su, sp)) return 0;
    if (c->s.phase == BEFORE && knowns[j] >= Y) return fail(c, "before the start only derivatives by inputs are known");
    *place += seed[j];
  }
  c->f->forward(v + X, v + U, v + P, &h, sx, su, sp, dx, y);
  if (NH && c->exchange) {
    double a[NN * NN], b[NN];
    slopes_by(c, v + X, v + U, h, NH, HELD, HELD, a);
    for (int i = 0; i < NH; i++) b[i] = -dx[HELD[i]];
    if (!solve(NH, a, b)) return fail(c, "the held accelerations have no derivative here");
    for (int i = 0; i < NH; i++) sx[HELD[i]] += b[i];
    c->f->forward(v + X, v + U, v + P, &h, sx, su, sp, dx, y);
  }
  for (size_t i = 0; i < n; i++) {
    if (!unknown_place(c, unknowns[i], &place, dx, y)) return 0;
    result[i] = *place;
  }
  return 1;
}

/* The gradient of the sum of seed x unknowns by the knowns, a direction for each: exact, and without the code of a gradient. */
static int adjoint(Vehicle *c, size_t n, const uint32_t *unknowns, size_t m, const uint32_t *knowns, const double *seed, double *result) {
  static const double one = 1.0;
  double *slopes = malloc((n ? n : 1) * sizeof *slopes);
  if (!slopes) return fail(c, "out of memory");
  for (size_t j = 0; j < m; j++) {
    result[j] = 0.0;
    if (!directional(c, n, unknowns, 1, knowns + j, &one, slopes)) {
      free(slopes);
      return 0;
    }
    for (size_t i = 0; i < n; i++) result[j] += seed[i] * slopes[i];
  }
  free(slopes);
  return 1;
}

/* Takes a state that was saved, unless it is none. */
static int restore(Vehicle *c, const State *saved) {
  for (int i = 0; i < COUNT; i++)
    if (!((i >= Y && i < X) || (i >= D && i < P)) && !isfinite(saved->v[i])) return fail(c, "a saved state with a number that is not finite");
  for (int i = 0; i < NU; i++)
    if (!isfinite(saved->slopes[i]) || !isfinite(saved->last[i])) return fail(c, "a saved state with a slope that is not finite");
  if (!isfinite(saved->time) || (saved->phase != BEFORE && saved->phase != RUNNING) || (saved->linear != 0 && saved->linear != 1))
    return fail(c, "the bytes are not a saved state of this model");
  c->s = *saved;
  c->changed = c->stale = 1;
  return 1;
}

/* Saves the state of a run at *state, where room is made if there is none. */
static int save(Vehicle *c, void **state) {
  if (!*state && !(*state = malloc(sizeof(State)))) return fail(c, "out of memory");
  memcpy(*state, &c->s, sizeof(State));
  return 1;
}

static int pack(Vehicle *c, const void *state, void *bytes, size_t size) {
  if (!state || size < sizeof(State)) return fail(c, "no saved state, or no room for it");
  memcpy(bytes, state, sizeof(State));
  return 1;
}

static int unpack(Vehicle *c, const void *bytes, size_t size, void **state) {
  if (size != sizeof(State)) return fail(c, "the bytes are not a saved state of this model");
  if (!*state && !(*state = malloc(sizeof(State)))) return fail(c, "out of memory");
  memcpy(*state, bytes, sizeof(State));
  return 1;
}

/* Continuous states in model exchange; below 0: a trial that leads nowhere, for which a solver takes a smaller step. */
static int all_states(Vehicle *c, size_t n) { return n == NC ? 1 : fail(c, "another number of states"); }

static int set_states(Vehicle *c, const double *x, size_t n) {
  if (!all_states(c, n)) return 0;
  for (int i = 0; i < NC; i++)
    if (!set(c, X + CONTINUOUS[i], x[i])) return -1;
  return 1;
}

static int get_states(Vehicle *c, double *x, size_t n) {
  if (!all_states(c, n)) return 0;
  for (int i = 0; i < NC; i++)
    if (!get(c, X + CONTINUOUS[i], x + i)) return 0;
  return 1;
}

static int get_slopes(Vehicle *c, double *slopes, size_t n) {
  if (!all_states(c, n)) return 0;
  for (int i = 0; i < NC; i++)
    if (!get(c, D + CONTINUOUS[i], slopes + i) || !isfinite(slopes[i])) return -1;
  return 1;
}

static int get_nominals(Vehicle *c, double *x, size_t n) {
  if (!all_states(c, n)) return 0;
  for (int i = 0; i < NC; i++) x[i] = NOMINAL[CONTINUOUS[i]];
  return 1;
}
