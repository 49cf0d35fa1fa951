/* A vehicle of somebody else as an FMU: single track with Fiala's tyres, in SAE's axes (z down, right positive), km/h and degrees.

   cc -shared -fPIC -DFMI=2|3 [-DCRASH_AFTER=steps] [-DHANG_AFTER=steps] [-DNAN_AFTER=steps] [-DSLOPES] foreign.c -lm -o libforeign.so
   The declarations are those that FMI 2.0 and 3.0 prescribe; none of their headers is needed. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef CRASH_AFTER
#define CRASH_AFTER -1
#endif
#ifndef HANG_AFTER
#define HANG_AFTER -1
#endif
#ifndef NAN_AFTER
#define NAN_AFTER -1
#endif

enum { HAND_WHEEL, ACCELERATOR, BRAKE,                                     /* deg to the right, %, % */
       SPEED, DRIFT, HEADING, YAW_VELOCITY, EAST, SOUTH, A_X, A_Y,         /* km/h, km/h, deg, deg/s, m, m, g, g */
       START_SPEED, MASS, INERTIA, FRONT, REAR, GRIP_FRONT, GRIP_REAR, MU, /* km/h, t, kg m2, mm, mm, kN/deg of an axle, 1 */
       COUNT };
static const char TOKEN[] = "{foreign}";
static const double STARTS[COUNT] = {[MASS] = 1.6, [INERTIA] = 2600, [FRONT] = 1250, [REAR] = 1450, [GRIP_FRONT] = 1.5,
                                     [GRIP_REAR] = 1.9, [MU] = 0.9};
static const double G = 9.80665, DEG = 0.017453292519943295, KMH = 1 / 3.6, RATIO = 16, STEP = 1e-4;

typedef struct {
    double value[COUNT], slope[3], u, v, r, psi, x, y, ax, ay;
    long steps;
} Vehicle;

static double fiala(double stiffness, double slip, double limit) {
    double t = fabs(tan(slip)), share = fmin(stiffness * t / (3 * limit), 1), force = limit;
    if (share < 1) force = stiffness * t * (1 - share + share * share / 3);
    return slip > 0 ? -force : force;
}

static void motion(Vehicle *c, double h) {
    const double *p = c->value;
    double m = 1000 * p[MASS], a = p[FRONT] / 1000, b = p[REAR] / 1000, delta = p[HAND_WHEEL] * DEG / RATIO;
    double going = fmax(fabs(c->u), 0.5), load = m * G / (a + b);
    double front = fiala(1000 * p[GRIP_FRONT] / DEG, atan2(c->v + a * c->r, going) - delta, p[MU] * load * b);
    double rear = fiala(1000 * p[GRIP_REAR] / DEG, atan2(c->v - b * c->r, going), p[MU] * load * a);
    double resist = 0.8 * p[MU] * m * G * p[BRAKE] / 100 + 0.012 * m * G + 0.4 * c->u * c->u;
    double pull = fmin(0.35 * m * G, 1e5 / going) * p[ACCELERATOR] / 100;
    resist = c->u > 0 ? fmin(resist, m * c->u / h) : 0; /* a brake does not push back */
    c->ax = (pull - resist - front * sin(delta)) / m;
    c->ay = (front * cos(delta) + rear) / m;
    double turn = (a * front * cos(delta) - b * rear) / p[INERTIA], u = c->u, v = c->v;
    c->u += h * (c->ax + v * c->r);
    c->v += h * (c->ay - c->u * c->r);
    c->r += h * turn;
    c->psi += h * c->r;
    c->x += h * (u * cos(c->psi) - v * sin(c->psi));
    c->y += h * (u * sin(c->psi) + v * cos(c->psi));
}

static void show(Vehicle *c) {
    double shown[] = {c->u / KMH, c->v / KMH, remainder(c->psi / DEG, 360), c->r / DEG, c->x, c->y, c->ax / G, c->ay / G};
    memcpy(c->value + SPEED, shown, sizeof shown);
}

static void begin(Vehicle *c) {
    c->u = c->value[START_SPEED] * KMH;
    show(c);
}

static void step(Vehicle *c, double span) {
    c->steps++;
    if (c->steps == CRASH_AFTER) *(volatile int *)0 = 1;
    while (c->steps == HANG_AFTER) ((volatile Vehicle *)c)->steps = HANG_AFTER;
    long parts = lround(ceil(span / STEP - 1e-9));
    double first[3], h = span / parts;
    memcpy(first, c->value, sizeof first);
    for (long i = 0; i < parts; i++) {
        for (int k = 0; k < 3; k++) c->value[k] = first[k] + c->slope[k] * h * (i + 0.5);
        motion(c, h);
    }
    for (int k = 0; k < 3; k++) c->value[k] = first[k] + c->slope[k] * span;
    if (c->steps == NAN_AFTER) c->r = NAN;
    show(c);
}

static Vehicle *create(const char *token) {
    if (!token || strcmp(token, TOKEN)) return NULL;
    Vehicle *c = calloc(1, sizeof *c);
    if (c) memcpy(c->value, STARTS, sizeof STARTS);
    return c;
}

static int move(Vehicle *c, const uint32_t *references, size_t n, double *out, const double *in) {
    for (size_t i = 0; i < n; i++) {
        if (references[i] >= COUNT) return 3;
        if (in) c->value[references[i]] = in[i];
        else out[i] = c->value[references[i]];
    }
    return 0;
}

#define NONE(name) int name(void) { return 3; } /* what it does not offer */
#define NONE_OF(version, type) NONE(version##Get##type) NONE(version##Set##type)
#if FMI == 2
const char *fmi2GetVersion(void) { return "2.0"; }
const char *fmi2GetTypesPlatform(void) { return "default"; }
NONE(fmi2SetDebugLogging) NONE(fmi2Reset) NONE_OF(fmi2, Integer) NONE_OF(fmi2, Boolean) NONE_OF(fmi2, String) NONE_OF(fmi2, FMUstate)
NONE(fmi2FreeFMUstate) NONE(fmi2SerializedFMUstateSize) NONE(fmi2SerializeFMUstate) NONE(fmi2DeSerializeFMUstate)
NONE(fmi2GetDirectionalDerivative)
NONE(fmi2GetRealOutputDerivatives) NONE(fmi2CancelStep)
NONE(fmi2GetStatus) NONE(fmi2GetRealStatus) NONE(fmi2GetIntegerStatus) NONE(fmi2GetBooleanStatus) NONE(fmi2GetStringStatus)
typedef struct { void *logger, *allocate, *release, *finished, *environment; } Callbacks;
void *fmi2Instantiate(const char *name, int type, const char *guid, const char *resources, const Callbacks *callbacks, int visible, int log) {
    return type == 1 ? create(guid) : NULL;
}
void fmi2FreeInstance(void *c) { free(c); }
int fmi2SetupExperiment(void *c, int tolerant, double tolerance, double start, int ends, double end) { return 0; }
int fmi2EnterInitializationMode(void *c) { return 0; }
int fmi2ExitInitializationMode(void *c) { begin(c); return 0; }
int fmi2Terminate(void *c) { return 0; }
int fmi2SetReal(void *c, const unsigned *references, size_t n, const double *values) { return move(c, references, n, NULL, values); }
int fmi2GetReal(void *c, const unsigned *references, size_t n, double *values) { return move(c, references, n, values, NULL); }
int fmi2DoStep(void *c, double now, double span, int forward) { step(c, span); return 0; }
int fmi2SetRealInputDerivatives(void *c, const unsigned *references, size_t n, const int *orders, const double *values) {
#ifndef SLOPES
    return 3;
#endif
    for (size_t i = 0; i < n; i++) {
        if (references[i] > 2 || orders[i] != 1) return 3;
        ((Vehicle *)c)->slope[references[i]] = values[i];
    }
    return 0;
}
#else
const char *fmi3GetVersion(void) { return "3.0"; }
NONE(fmi3SetDebugLogging) NONE(fmi3Reset) NONE_OF(fmi3, Float32) NONE_OF(fmi3, Int8) NONE_OF(fmi3, UInt8) NONE_OF(fmi3, Int16)
NONE_OF(fmi3, UInt16) NONE_OF(fmi3, Int32) NONE_OF(fmi3, UInt32) NONE_OF(fmi3, Int64) NONE_OF(fmi3, UInt64) NONE_OF(fmi3, Boolean)
NONE_OF(fmi3, String) NONE_OF(fmi3, Binary) NONE_OF(fmi3, Clock) NONE_OF(fmi3, FMUState) NONE_OF(fmi3, IntervalDecimal)
NONE_OF(fmi3, IntervalFraction) NONE_OF(fmi3, ShiftDecimal) NONE_OF(fmi3, ShiftFraction) NONE(fmi3GetNumberOfVariableDependencies)
NONE(fmi3GetVariableDependencies) NONE(fmi3FreeFMUState) NONE(fmi3SerializedFMUStateSize) NONE(fmi3SerializeFMUState)
NONE(fmi3DeserializeFMUState) NONE(fmi3GetDirectionalDerivative) NONE(fmi3GetAdjointDerivative) NONE(fmi3EnterConfigurationMode)
NONE(fmi3ExitConfigurationMode) NONE(fmi3EvaluateDiscreteStates) NONE(fmi3UpdateDiscreteStates) NONE(fmi3EnterEventMode)
NONE(fmi3EnterStepMode) NONE(fmi3GetOutputDerivatives) NONE(fmi3ActivateModelPartition) NONE(fmi3InstantiateModelExchange)
NONE(fmi3InstantiateScheduledExecution) NONE(fmi3EnterContinuousTimeMode) NONE(fmi3CompletedIntegratorStep) NONE(fmi3SetTime)
NONE_OF(fmi3, ContinuousStates) NONE(fmi3GetContinuousStateDerivatives) NONE(fmi3GetEventIndicators)
NONE(fmi3GetNominalsOfContinuousStates) NONE(fmi3GetNumberOfEventIndicators) NONE(fmi3GetNumberOfContinuousStates)
void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, bool visible, bool log, bool events,
                                  bool early, const uint32_t *needed, size_t n, void *environment, void *logger, void *update) {
    return create(token);
}
void fmi3FreeInstance(void *c) { free(c); }
int fmi3EnterInitializationMode(void *c, bool tolerant, double tolerance, double start, bool ends, double end) { return 0; }
int fmi3ExitInitializationMode(void *c) { begin(c); return 0; }
int fmi3Terminate(void *c) { return 0; }
int fmi3SetFloat64(void *c, const uint32_t *references, size_t n, const double *values, size_t m) { return move(c, references, n, NULL, values); }
int fmi3GetFloat64(void *c, const uint32_t *references, size_t n, double *values, size_t m) { return move(c, references, n, values, NULL); }
int fmi3DoStep(void *c, double now, double span, bool forward, bool *event, bool *ends, bool *early, double *reached) {
    step(c, span);
    *event = *ends = *early = false;
    *reached = now + span;
    return 0;
}
#endif
