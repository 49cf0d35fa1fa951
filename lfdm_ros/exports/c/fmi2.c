/* The interface FMI 2.0, for co-simulation and model exchange, of a vehicle. */
#include "vehicle.h"

typedef void *fmi2Component, *fmi2ComponentEnvironment, *fmi2FMUstate;
typedef unsigned int fmi2ValueReference;
typedef double fmi2Real;
typedef int fmi2Integer, fmi2Boolean;
typedef char fmi2Char, fmi2Byte;
typedef const fmi2Char *fmi2String;
typedef enum { fmi2OK, fmi2Warning, fmi2Discard, fmi2Error, fmi2Fatal, fmi2Pending } fmi2Status;
typedef enum { fmi2ModelExchange, fmi2CoSimulation } fmi2Type;
typedef enum { fmi2DoStepStatus, fmi2PendingStatus, fmi2LastSuccessfulTime, fmi2Terminated } fmi2StatusKind;
typedef struct {
  void (*logger)(fmi2ComponentEnvironment, fmi2String, fmi2Status, fmi2String, fmi2String, ...);
  void *(*allocateMemory)(size_t, size_t);
  void (*freeMemory)(void *);
  void (*stepFinished)(fmi2ComponentEnvironment, fmi2Status);
  fmi2ComponentEnvironment componentEnvironment;
} fmi2CallbackFunctions;
typedef struct {
  fmi2Boolean newDiscreteStatesNeeded, terminateSimulation, nominalsOfContinuousStatesChanged, valuesOfContinuousStatesChanged,
      nextEventTimeDefined;
  fmi2Real nextEventTime;
} fmi2EventInfo;

typedef struct {
  Vehicle *vehicle;
  fmi2CallbackFunctions callbacks;
  char *name;
} Instance;

static fmi2Status result(Instance *c, int done) {
  if (done > 0) return fmi2OK;
  if (done < 0) return fmi2Discard;
  if (c->callbacks.logger)
    c->callbacks.logger(c->callbacks.componentEnvironment, c->name, fmi2Error, "logStatusError", "%s", c->vehicle->message);
  return fmi2Error;
}

static fmi2Status refuse(fmi2Component c, const char *what) {
  fail(((Instance *)c)->vehicle, "%s", what);
  return result(c, 0);
}

#define V(c) (((Instance *)(c))->vehicle)
#define NONE(kind) (n ? refuse(c, "the vehicle has no variable of type " kind) : fmi2OK)

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }
EXPORT fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String categories[]) {
  (void)c, (void)on, (void)n, (void)categories;
  return fmi2OK;
}

EXPORT fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String token, fmi2String resources,
                                     const fmi2CallbackFunctions *callbacks, fmi2Boolean visible, fmi2Boolean logging) {
  (void)resources, (void)visible, (void)logging;
  const char *wrong = !token || strcmp(token, TOKEN) ? "the GUID is that of another FMU: modelDescription.xml and library do not match"
                      : type == fmi2ModelExchange && !MODEL_EXCHANGE ? "this model has discrete states: co-simulation only" : NULL;
  if (wrong) {
    if (callbacks && callbacks->logger) callbacks->logger(callbacks->componentEnvironment, name, fmi2Error, "logStatusError", "%s", wrong);
    return NULL;
  }
  Instance *c = calloc(1, sizeof *c);
  size_t length = name ? strlen(name) : 0;
  if (!c) return NULL;
  c->vehicle = make(type == fmi2ModelExchange);
  c->name = calloc(length + 1, 1);
  if (!c->vehicle || !c->name) {
    discard(c->vehicle), free(c->name), free(c);
    return NULL;
  }
  if (name) memcpy(c->name, name, length);
  if (callbacks) c->callbacks = *callbacks;
  return c;
}

EXPORT void fmi2FreeInstance(fmi2Component c) {
  if (!c) return;
  discard(V(c)), free(((Instance *)c)->name), free(c);
}

EXPORT fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean tolerant, fmi2Real tolerance, fmi2Real begin_at, fmi2Boolean ends,
                                      fmi2Real stop) {
  (void)tolerant, (void)tolerance, (void)ends, (void)stop;
  V(c)->s.time = begin_at;
  return fmi2OK;
}
EXPORT fmi2Status fmi2EnterInitializationMode(fmi2Component c) { (void)c; return fmi2OK; }
EXPORT fmi2Status fmi2ExitInitializationMode(fmi2Component c) { return result(c, begin(V(c))); }
EXPORT fmi2Status fmi2Terminate(fmi2Component c) { (void)c; return fmi2OK; }
EXPORT fmi2Status fmi2Reset(fmi2Component c) { reset(V(c)); return fmi2OK; }

EXPORT fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Real values[]) {
  for (size_t i = 0; i < n; i++)
    if (!get(V(c), r[i], values + i)) return result(c, 0);
  return fmi2OK;
}
EXPORT fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Real values[]) {
  for (size_t i = 0; i < n; i++)
    if (!set(V(c), r[i], values[i])) return result(c, 0);
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetBoolean(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Boolean values[]) {
  for (size_t i = 0; i < n; i++) {
    if (r[i] != LINEAR) return NONE("Boolean but linear_inputs");
    values[i] = (fmi2Boolean)V(c)->s.linear;
  }
  return fmi2OK;
}
EXPORT fmi2Status fmi2SetBoolean(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Boolean values[]) {
  for (size_t i = 0; i < n; i++) {
    if (r[i] != LINEAR) return NONE("Boolean but linear_inputs");
    V(c)->s.linear = values[i] != 0;
  }
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetInteger(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Integer v[]) { (void)r, (void)v; return NONE("Integer"); }
EXPORT fmi2Status fmi2SetInteger(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Integer v[]) { (void)r, (void)v; return NONE("Integer"); }
EXPORT fmi2Status fmi2GetString(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2String v[]) { (void)r, (void)v; return NONE("String"); }
EXPORT fmi2Status fmi2SetString(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2String v[]) { (void)r, (void)v; return NONE("String"); }

EXPORT fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *state) {
  return result(c, save(V(c), state));
}
EXPORT fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state) {
  return state ? result(c, restore(V(c), state)) : refuse(c, "no saved state");
}
EXPORT fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *state) {
  (void)c;
  if (state) free(*state), *state = NULL;
  return fmi2OK;
}
EXPORT fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate state, size_t *size) {
  (void)c, (void)state;
  *size = sizeof(State);
  return fmi2OK;
}
EXPORT fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate state, fmi2Byte bytes[], size_t size) {
  return result(c, pack(V(c), state, bytes, size));
}
EXPORT fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size, fmi2FMUstate *state) {
  return result(c, unpack(V(c), bytes, size, state));
}

EXPORT fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference unknowns[], size_t n,
                                               const fmi2ValueReference knowns[], size_t m, const fmi2Real seed[], fmi2Real values[]) {
  return result(c, directional(V(c), n, unknowns, m, knowns, seed, values));
}

/* -- Model exchange: no events ----------------------------------------------------------------------------------------------------- */
EXPORT fmi2Status fmi2EnterEventMode(fmi2Component c) { (void)c; return fmi2OK; }
EXPORT fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *info) {
  (void)c;
  memset(info, 0, sizeof *info);
  return fmi2OK;
}
EXPORT fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c) { (void)c; return fmi2OK; }
EXPORT fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean keeps, fmi2Boolean *event, fmi2Boolean *terminate) {
  (void)c, (void)keeps;
  *event = *terminate = 0;
  return fmi2OK;
}
EXPORT fmi2Status fmi2SetTime(fmi2Component c, fmi2Real time) { V(c)->s.time = time; return fmi2OK; }
EXPORT fmi2Status fmi2SetContinuousStates(fmi2Component c, const fmi2Real x[], size_t n) {
  return result(c, set_states(V(c), x, n));
}
EXPORT fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real slopes[], size_t n) {
  return result(c, get_slopes(V(c), slopes, n));
}
EXPORT fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real values[], size_t n) { (void)values; return NONE("event indicator"); }
EXPORT fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real x[], size_t n) {
  return result(c, get_states(V(c), x, n));
}
EXPORT fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real x[], size_t n) {
  return result(c, get_nominals(V(c), x, n));
}

/* -- Co-simulation ----------------------------------------------------------------------------------------------------------------- */
EXPORT fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Integer orders[],
                                              const fmi2Real values[]) {
  for (size_t i = 0; i < n; i++) {
    if (r[i] >= Y) return refuse(c, "the slope of a variable that is no input");
    if (orders[i] != 1) return refuse(c, "inputs are linear between two communication points: give derivatives of order 1 only");
    if (!isfinite(values[i])) return refuse(c, "the slope of an input is not a finite number");
    V(c)->s.slopes[r[i] - U] = values[i];
  }
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Integer orders[],
                                               fmi2Real values[]) {
  (void)r, (void)orders, (void)values;
  return NONE("output derivative");
}
EXPORT fmi2Status fmi2DoStep(fmi2Component c, fmi2Real time, fmi2Real interval, fmi2Boolean keeps) {
  (void)keeps;
  return result(c, advance(V(c), time, interval));
}
EXPORT fmi2Status fmi2CancelStep(fmi2Component c) { return refuse(c, "no step is pending"); }
EXPORT fmi2Status fmi2GetStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Status *value) {
  (void)c, (void)kind, (void)value;
  return fmi2Discard;
}
EXPORT fmi2Status fmi2GetRealStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Real *value) {
  if (kind != fmi2LastSuccessfulTime) return fmi2Discard;
  *value = V(c)->s.time;
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetIntegerStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Integer *value) {
  (void)c, (void)kind, (void)value;
  return fmi2Discard;
}
EXPORT fmi2Status fmi2GetBooleanStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Boolean *value) {
  (void)c;
  if (kind != fmi2Terminated) return fmi2Discard;
  *value = 0;
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetStringStatus(fmi2Component c, const fmi2StatusKind kind, fmi2String *value) {
  (void)c, (void)kind, (void)value;
  return fmi2Discard;
}
