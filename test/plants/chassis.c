/* A vehicle without tyres as an FMU (FMI 2.0), with the variables of Project Chrono's FMU_WheeledVehiclePtrain, for which it stands in: a
   body in six degrees of freedom on four struts, each with an unsprung mass along the body's z, and spinning wheels. Numbers of an HMMWV.

   cc -shared -fPIC -O2 chassis.c -lm -o chassis.so */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STEERING, THROTTLE, BRAKING, CLUTCH, LOADS, /* point, force, moment of each wheel */
       FRAME = LOADS + 36,                         /* pos, rot, pos_dt, rot_dt */
       WHEELS = FRAME + 14,                        /* pos, rot, lin_vel, ang_vel of each wheel */
       INIT_LOC = WHEELS + 52, INIT_YAW = INIT_LOC + 3, STEP_SIZE, COUNT };
static const double G = 9.80665, M = 2097.85, UNSPRUNG[2] = {127.866, 129.98}, I[3] = {1289, 3718.28, 4519}, ARM = 1.6889, HALF = 0.91;
static const double HEIGHT = 0.713, RADIUS = 0.47, TYRE = 326332, SPRING = 150000, DAMPER = 19015.5692, SPIN = 11, BRAKE = 4000;
static const double LOCK = 0.6525249, RATIO = 0.06, TORQUE = 1000, MOTOR = 2000; /* of the motor: N m at rest, rad/s without torque */

typedef struct { double value[COUNT], p[3], q[4], v[3], w[3], lift[4], s[4], spin[4], turn[4]; } Vehicle; /* v, w in the body's axes */

static void cross(const double *a, const double *b, double *c) {
    double x = a[1] * b[2] - a[2] * b[1], y = a[2] * b[0] - a[0] * b[2], z = a[0] * b[1] - a[1] * b[0];
    c[0] = x, c[1] = y, c[2] = z;
}
static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
static void times(const double *a, const double *b, double *c) { /* quaternions */
    double r[4] = {a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3], a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
                   a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1], a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]};
    memcpy(c, r, sizeof r);
}
static void out(const double *q, const double *v, double *c) { /* from the body's axes to the world's */
    double r[4] = {0, v[0], v[1], v[2]}, back[4] = {q[0], -q[1], -q[2], -q[3]};
    times(q, r, r), times(r, back, r), memcpy(c, r + 1, 3 * sizeof *c);
}
static void in(const double *q, const double *v, double *c) {
    double back[4] = {q[0], -q[1], -q[2], -q[3]};
    out(back, v, c);
}
static double angle(const Vehicle *c, int i) { return i < 2 ? LOCK * c->value[STEERING] : 0; }
static void hub(const Vehicle *c, int i, double *r) {
    double load = M * G / 4 + UNSPRUNG[i / 2] * G;
    r[0] = i < 2 ? ARM : -ARM, r[1] = i % 2 ? -HALF : HALF, r[2] = RADIUS - load / TYRE - HEIGHT + c->s[i];
}

static void show(Vehicle *c) {
    double *f = c->value + FRAME, rate[4] = {0, c->w[0] / 2, c->w[1] / 2, c->w[2] / 2};
    memcpy(f, c->p, sizeof c->p), memcpy(f + 3, c->q, sizeof c->q);
    out(c->q, c->v, f + 7), times(c->q, rate, f + 10);
    for (int i = 0; i < 4; i++) {
        double *o = c->value + WHEELS + 13 * i, r[3], v[3], d = angle(c, i), axis[3] = {-sin(d), cos(d), 0}, w[3];
        double steer[4] = {cos(d / 2), 0, 0, sin(d / 2)}, spun[4] = {cos(c->turn[i] / 2), 0, sin(c->turn[i] / 2), 0};
        hub(c, i, r), cross(c->w, r, v);
        for (int k = 0; k < 3; k++) v[k] += c->v[k], w[k] = c->w[k] + axis[k] * c->spin[i];
        v[2] = c->lift[i];
        out(c->q, r, o), out(c->q, v, o + 7), out(c->q, w, o + 10);
        for (int k = 0; k < 3; k++) o[k] += c->p[k];
        times(c->q, steer, o + 3), times(o + 3, spun, o + 3);
    }
}

static void motion(Vehicle *c, double h) {
    double total = M + 2 * (UNSPRUNG[0] + UNSPRUNG[1]), down[3] = {0, 0, -G}, g[3], force[3] = {0}, torque[3] = {0}, a[3], t[3];
    in(c->q, down, g);
    for (int i = 0; i < 4; i++) {
        const double *l = c->value + LOADS + 9 * i;
        double r[3], f[3], m[3], from[3], d = angle(c, i), axis[3] = {-sin(d), cos(d), 0}, u = UNSPRUNG[i / 2], v[3];
        hub(c, i, r), out(c->q, r, from);
        for (int k = 0; k < 3; k++) from[k] = l[k] - from[k] - c->p[k];
        cross(from, l + 3, m);
        for (int k = 0; k < 3; k++) m[k] += l[6 + k];
        in(c->q, l + 3, f), in(c->q, m, m);
        /* Spin: the brake is dry friction, which stops a wheel and holds it. */
        double drive = c->value[THROTTLE] * fmax(TORQUE * (1 - c->spin[i] / RATIO / MOTOR), 0) / RATIO / 4, own = dot(m, axis);
        double stop = SPIN * c->spin[i] / h + own + drive, most = BRAKE * c->value[BRAKING], on = drive - fmin(fmax(stop, -most), most);
        c->spin[i] += h * (own + on) / SPIN;
        c->turn[i] += h * c->spin[i];
        /* Strut. */
        cross(c->w, r, v);
        double rate = c->lift[i] - v[2] - c->v[2], strut = M * G / 4 + SPRING * c->s[i] + DAMPER * rate;
        c->lift[i] += h * ((f[2] - strut) / u + g[2] - (c->w[0] * c->v[1] - c->w[1] * c->v[0]));
        c->s[i] += h * (c->lift[i] - v[2] - c->v[2]);
        double at_body[3] = {f[0], f[1], strut};
        cross(r, at_body, t);
        for (int k = 0; k < 3; k++) force[k] += at_body[k], torque[k] += t[k] + m[k] - axis[k] * (own + on);
    }
    for (int k = 0; k < 3; k++) a[k] = force[k] / (k < 2 ? total : M) + g[k];
    cross(c->w, c->v, t);
    for (int k = 0; k < 3; k++) c->v[k] += h * (a[k] - t[k]);
    double spin[3] = {I[0] * c->w[0], I[1] * c->w[1], I[2] * c->w[2]};
    cross(c->w, spin, t);
    for (int k = 0; k < 3; k++) c->w[k] += h * (torque[k] - t[k]) / I[k];
    double moved[3], rate[4] = {0, c->w[0] / 2, c->w[1] / 2, c->w[2] / 2}, size = 0;
    out(c->q, c->v, moved), times(c->q, rate, rate);
    for (int k = 0; k < 3; k++) c->p[k] += h * moved[k];
    for (int k = 0; k < 4; k++) c->q[k] += h * rate[k], size += c->q[k] * c->q[k];
    for (int k = 0; k < 4; k++) c->q[k] /= sqrt(size);
}

static int move(Vehicle *c, const unsigned *references, size_t n, double *get, const double *set) {
    for (size_t i = 0; i < n; i++) {
        if (references[i] >= COUNT) return 3;
        if (set) c->value[references[i]] = set[i];
        else get[i] = c->value[references[i]];
    }
    return 0;
}

const char *fmi2GetVersion(void) { return "2.0"; }
const char *fmi2GetTypesPlatform(void) { return "default"; }
void *fmi2Instantiate(const char *name, int type, const char *guid, const char *resources, const void *callbacks, int visible, int log) {
    if (type != 1 || strcmp(guid, "{chassis}")) return NULL;
    Vehicle *c = calloc(1, sizeof *c);
    for (int i = 0; c && i < 4; i++) c->value[WHEELS + 13 * i + 3] = 1; /* Chrono's wheels lie at the origin until the first step */
    if (c) c->value[STEP_SIZE] = 1e-3;
    return c;
}
void fmi2FreeInstance(void *c) { free(c); }
int fmi2SetupExperiment(void *c, int tolerant, double tolerance, double start, int ends, double end) { return 0; }
int fmi2EnterInitializationMode(void *c) { return 0; }
int fmi2ExitInitializationMode(void *instance) {
    Vehicle *c = instance;
    memcpy(c->p, c->value + INIT_LOC, sizeof c->p);
    c->p[2] += HEIGHT, c->q[0] = cos(c->value[INIT_YAW] / 2), c->q[3] = sin(c->value[INIT_YAW] / 2);
    memcpy(c->value + FRAME, c->p, sizeof c->p), memcpy(c->value + FRAME + 3, c->q, sizeof c->q);
    return 0;
}
int fmi2Terminate(void *c) { return 0; }
int fmi2SetReal(void *c, const unsigned *references, size_t n, const double *values) { return move(c, references, n, NULL, values); }
int fmi2GetReal(void *c, const unsigned *references, size_t n, double *values) { return move(c, references, n, values, NULL); }
int fmi2SetRealInputDerivatives(void *c, const unsigned *references, size_t n, const int *orders, const double *values) { return 0; }
int fmi2DoStep(void *instance, double now, double span, int forward) {
    Vehicle *c = instance;
    int parts = (int)lround(fmax(ceil(span / c->value[STEP_SIZE] - 1e-9), 1));
    for (int i = 0; i < parts; i++) motion(c, span / parts);
    show(c);
    return 0;
}
