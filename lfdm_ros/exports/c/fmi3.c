/* The interface FMI 3.0, for co-simulation and model exchange, of a vehicle. */
#include <stdbool.h>

#include "vehicle.h"

typedef void *fmi3Instance, *fmi3InstanceEnvironment, *fmi3FMUState;
typedef uint32_t fmi3ValueReference;
typedef bool fmi3Boolean, fmi3Clock;
typedef const char *fmi3String;
typedef const uint8_t *fmi3Binary;
typedef enum { fmi3OK, fmi3Warning, fmi3Discard, fmi3Error, fmi3Fatal } fmi3Status;
typedef void (*fmi3LogMessageCallback)(fmi3InstanceEnvironment, fmi3Status, fmi3String, fmi3String);
typedef void (*fmi3Callback)(void);

typedef struct {
  Vehicle *vehicle;
  fmi3LogMessageCallback log;
  fmi3InstanceEnvironment environment;
} Instance;

static fmi3Status result(Instance *c, int done) {
  if (done > 0) return fmi3OK;
  if (done < 0) return fmi3Discard;
  if (c->log) c->log(c->environment, fmi3Error, "logStatusError", c->vehicle->message);
  return fmi3Error;
}

static fmi3Status refuse(fmi3Instance c, const char *what) {
  fail(((Instance *)c)->vehicle, "%s", what);
  return result(c, 0);
}

#define V(c) (((Instance *)(c))->vehicle)
#define NONE(kind) (n ? refuse(c, "the vehicle has no variable of type " kind) : fmi3OK)

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }
EXPORT fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean on, size_t n, const fmi3String categories[]) {
  (void)c, (void)on, (void)n, (void)categories;
  return fmi3OK;
}

static fmi3Instance instantiate(fmi3String token, int exchange, fmi3InstanceEnvironment environment, fmi3LogMessageCallback log) {
  const char *wrong = !token || strcmp(token, TOKEN) ? "the token is that of another FMU: modelDescription.xml and library do not match"
                      : exchange && !MODEL_EXCHANGE ? "this model has discrete states: co-simulation only" : NULL;
  if (wrong) {
    if (log) log(environment, fmi3Error, "logStatusError", wrong);
    return NULL;
  }
  Instance *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->vehicle = make(exchange);
  if (!c->vehicle) {
    free(c);
    return NULL;
  }
  c->log = log, c->environment = environment;
  return c;
}
EXPORT fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
                                                 fmi3Boolean logging, fmi3InstanceEnvironment environment, fmi3LogMessageCallback log) {
  (void)name, (void)resources, (void)visible, (void)logging;
  return instantiate(token, 1, environment, log);
}
EXPORT fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
                                                fmi3Boolean logging, fmi3Boolean events, fmi3Boolean early,
                                                const fmi3ValueReference intermediate[], size_t n, fmi3InstanceEnvironment environment,
                                                fmi3LogMessageCallback log, fmi3Callback update) {
  (void)name, (void)resources, (void)visible, (void)logging, (void)events, (void)early, (void)intermediate, (void)n, (void)update;
  return instantiate(token, 0, environment, log);
}
EXPORT fmi3Instance fmi3InstantiateScheduledExecution(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
                                                      fmi3Boolean logging, fmi3InstanceEnvironment environment, fmi3LogMessageCallback log,
                                                      fmi3Callback clock, fmi3Callback lock, fmi3Callback unlock) {
  (void)name, (void)token, (void)resources, (void)visible, (void)logging, (void)clock, (void)lock, (void)unlock;
  if (log) log(environment, fmi3Error, "logStatusError", "no scheduled execution: take co-simulation");
  return NULL;
}
EXPORT void fmi3FreeInstance(fmi3Instance c) {
  if (!c) return;
  discard(V(c)), free(c);
}

EXPORT fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean tolerant, double tolerance, double begin_at, fmi3Boolean ends,
                                              double stop) {
  (void)tolerant, (void)tolerance, (void)ends, (void)stop;
  V(c)->s.time = begin_at;
  return fmi3OK;
}
EXPORT fmi3Status fmi3ExitInitializationMode(fmi3Instance c) { return result(c, begin(V(c))); }
EXPORT fmi3Status fmi3EnterEventMode(fmi3Instance c) { (void)c; return fmi3OK; }
EXPORT fmi3Status fmi3Terminate(fmi3Instance c) { (void)c; return fmi3OK; }
EXPORT fmi3Status fmi3Reset(fmi3Instance c) { reset(V(c)); return fmi3OK; }
EXPORT fmi3Status fmi3EnterConfigurationMode(fmi3Instance c) { return refuse(c, "no structural parameters"); }
EXPORT fmi3Status fmi3ExitConfigurationMode(fmi3Instance c) { return refuse(c, "no structural parameters"); }

EXPORT fmi3Status fmi3GetFloat64(fmi3Instance c, const fmi3ValueReference r[], size_t n, double values[], size_t m) {
  if (n != m) return refuse(c, "all variables are scalars: as many values as references");
  for (size_t i = 0; i < n; i++)
    if (!get(V(c), r[i], values + i)) return result(c, 0);
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetFloat64(fmi3Instance c, const fmi3ValueReference r[], size_t n, const double values[], size_t m) {
  if (n != m) return refuse(c, "all variables are scalars: as many values as references");
  for (size_t i = 0; i < n; i++)
    if (!set(V(c), r[i], values[i])) return result(c, 0);
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetBoolean(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3Boolean values[], size_t m) {
  for (size_t i = 0; i < n; i++) {
    if (r[i] != LINEAR || i >= m) return NONE("Boolean but linear_inputs");
    values[i] = V(c)->s.linear != 0;
  }
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetBoolean(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3Boolean values[], size_t m) {
  for (size_t i = 0; i < n; i++) {
    if (r[i] != LINEAR || i >= m) return NONE("Boolean but linear_inputs");
    V(c)->s.linear = values[i];
  }
  return fmi3OK;
}
#define REFUSE(kind, type)                                                                                                            \
  EXPORT fmi3Status fmi3Get##kind(fmi3Instance c, const fmi3ValueReference r[], size_t n, type v[], size_t m) {                       \
    (void)r, (void)v, (void)m;                                                                                                        \
    return NONE(#kind);                                                                                                               \
  }                                                                                                                                   \
  EXPORT fmi3Status fmi3Set##kind(fmi3Instance c, const fmi3ValueReference r[], size_t n, const type v[], size_t m) {                 \
    (void)r, (void)v, (void)m;                                                                                                        \
    return NONE(#kind);                                                                                                               \
  }
REFUSE(Float32, float)
REFUSE(Int8, int8_t)
REFUSE(UInt8, uint8_t)
REFUSE(Int16, int16_t)
REFUSE(UInt16, uint16_t)
REFUSE(Int32, int32_t)
REFUSE(UInt32, uint32_t)
REFUSE(Int64, int64_t)
REFUSE(UInt64, uint64_t)
REFUSE(String, fmi3String)
EXPORT fmi3Status fmi3GetBinary(fmi3Instance c, const fmi3ValueReference r[], size_t n, size_t sizes[], fmi3Binary v[], size_t m) {
  (void)r, (void)sizes, (void)v, (void)m;
  return NONE("Binary");
}
EXPORT fmi3Status fmi3SetBinary(fmi3Instance c, const fmi3ValueReference r[], size_t n, const size_t sizes[], const fmi3Binary v[], size_t m) {
  (void)r, (void)sizes, (void)v, (void)m;
  return NONE("Binary");
}
EXPORT fmi3Status fmi3GetClock(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3Clock v[]) { (void)r, (void)v; return NONE("Clock"); }
EXPORT fmi3Status fmi3SetClock(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3Clock v[]) { (void)r, (void)v; return NONE("Clock"); }

EXPORT fmi3Status fmi3GetNumberOfVariableDependencies(fmi3Instance c, fmi3ValueReference r, size_t *count) {
  (void)r, (void)count;
  return refuse(c, "dependencies are those of modelDescription.xml");
}
EXPORT fmi3Status fmi3GetVariableDependencies(fmi3Instance c, fmi3ValueReference r, size_t at[], fmi3ValueReference independents[],
                                              size_t of[], int kinds[], size_t n) {
  (void)r, (void)at, (void)independents, (void)of, (void)kinds, (void)n;
  return refuse(c, "dependencies are those of modelDescription.xml");
}

EXPORT fmi3Status fmi3GetFMUState(fmi3Instance c, fmi3FMUState *state) {
  return result(c, save(V(c), state));
}
EXPORT fmi3Status fmi3SetFMUState(fmi3Instance c, fmi3FMUState state) {
  return state ? result(c, restore(V(c), state)) : refuse(c, "no saved state");
}
EXPORT fmi3Status fmi3FreeFMUState(fmi3Instance c, fmi3FMUState *state) {
  (void)c;
  if (state) free(*state), *state = NULL;
  return fmi3OK;
}
EXPORT fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, fmi3FMUState state, size_t *size) {
  (void)c, (void)state;
  *size = sizeof(State);
  return fmi3OK;
}
EXPORT fmi3Status fmi3SerializeFMUState(fmi3Instance c, fmi3FMUState state, uint8_t bytes[], size_t size) {
  return result(c, pack(V(c), state, bytes, size));
}
EXPORT fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const uint8_t bytes[], size_t size, fmi3FMUState *state) {
  return result(c, unpack(V(c), bytes, size, state));
}

EXPORT fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, const fmi3ValueReference unknowns[], size_t n,
                                               const fmi3ValueReference knowns[], size_t m, const double seed[], size_t seeds,
                                               double values[], size_t count) {
  if (seeds != m || count != n) return refuse(c, "all variables are scalars: as many values as references");
  return result(c, directional(V(c), n, unknowns, m, knowns, seed, values));
}
EXPORT fmi3Status fmi3GetAdjointDerivative(fmi3Instance c, const fmi3ValueReference unknowns[], size_t n, const fmi3ValueReference knowns[],
                                           size_t m, const double seed[], size_t seeds, double values[], size_t count) {
  if (seeds != n || count != m) return refuse(c, "all variables are scalars: as many values as references");
  return result(c, adjoint(V(c), n, unknowns, m, knowns, seed, values));
}

/* -- Clocks: none ------------------------------------------------------------------------------------------------------------------ */
#define CLOCK(name, ...) EXPORT fmi3Status name(fmi3Instance c, const fmi3ValueReference r[], size_t n, __VA_ARGS__)
CLOCK(fmi3GetIntervalDecimal, double a[], int b[]) { (void)r, (void)a, (void)b; return NONE("Clock"); }
CLOCK(fmi3GetIntervalFraction, uint64_t a[], uint64_t b[], int d[]) { (void)r, (void)a, (void)b, (void)d; return NONE("Clock"); }
CLOCK(fmi3GetShiftDecimal, double a[]) { (void)r, (void)a; return NONE("Clock"); }
CLOCK(fmi3GetShiftFraction, uint64_t a[], uint64_t b[]) { (void)r, (void)a, (void)b; return NONE("Clock"); }
CLOCK(fmi3SetIntervalDecimal, const double a[]) { (void)r, (void)a; return NONE("Clock"); }
CLOCK(fmi3SetIntervalFraction, const uint64_t a[], const uint64_t b[]) { (void)r, (void)a, (void)b; return NONE("Clock"); }
CLOCK(fmi3SetShiftDecimal, const double a[]) { (void)r, (void)a; return NONE("Clock"); }
CLOCK(fmi3SetShiftFraction, const uint64_t a[], const uint64_t b[]) { (void)r, (void)a, (void)b; return NONE("Clock"); }
EXPORT fmi3Status fmi3ActivateModelPartition(fmi3Instance c, fmi3ValueReference clock, double time) {
  (void)clock, (void)time;
  return refuse(c, "no scheduled execution");
}

/* -- Model exchange: no events ----------------------------------------------------------------------------------------------------- */
EXPORT fmi3Status fmi3EvaluateDiscreteStates(fmi3Instance c) { (void)c; return fmi3OK; }
EXPORT fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean *more, fmi3Boolean *terminate, fmi3Boolean *nominals,
                                           fmi3Boolean *values, fmi3Boolean *next, double *time) {
  (void)c;
  *more = *terminate = *nominals = *values = *next = false;
  *time = 0.0;
  return fmi3OK;
}
EXPORT fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance c) { (void)c; return fmi3OK; }
EXPORT fmi3Status fmi3CompletedIntegratorStep(fmi3Instance c, fmi3Boolean keeps, fmi3Boolean *event, fmi3Boolean *terminate) {
  (void)c, (void)keeps;
  *event = *terminate = false;
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetTime(fmi3Instance c, double time) { V(c)->s.time = time; return fmi3OK; }
EXPORT fmi3Status fmi3SetContinuousStates(fmi3Instance c, const double x[], size_t n) {
  return result(c, set_states(V(c), x, n));
}
EXPORT fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance c, double slopes[], size_t n) {
  return result(c, get_slopes(V(c), slopes, n));
}
EXPORT fmi3Status fmi3GetEventIndicators(fmi3Instance c, double values[], size_t n) { (void)values; return NONE("event indicator"); }
EXPORT fmi3Status fmi3GetContinuousStates(fmi3Instance c, double x[], size_t n) {
  return result(c, get_states(V(c), x, n));
}
EXPORT fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance c, double x[], size_t n) {
  return result(c, get_nominals(V(c), x, n));
}
EXPORT fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t *n) { (void)c; *n = 0; return fmi3OK; }
EXPORT fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t *n) { (void)c; *n = NC; return fmi3OK; }

/* -- Co-simulation ----------------------------------------------------------------------------------------------------------------- */
EXPORT fmi3Status fmi3EnterStepMode(fmi3Instance c) { (void)c; return fmi3OK; }
EXPORT fmi3Status fmi3GetOutputDerivatives(fmi3Instance c, const fmi3ValueReference r[], size_t n, const int32_t orders[], double values[],
                                           size_t m) {
  (void)r, (void)orders, (void)values, (void)m;
  return NONE("output derivative");
}
EXPORT fmi3Status fmi3DoStep(fmi3Instance c, double time, double interval, fmi3Boolean keeps, fmi3Boolean *event, fmi3Boolean *terminate,
                             fmi3Boolean *early, double *reached) {
  (void)keeps;
  fmi3Status status = result(c, advance(V(c), time, interval));
  *event = *terminate = *early = false;
  *reached = V(c)->s.time;
  return status;
}
