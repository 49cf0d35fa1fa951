/* A hand wheel's motor as an FMU (FMI 2.0): angle [rad] follows a command of -1 to 1 with a lag; the speed [m/s] makes it slower.

   cc -shared -fPIC lag.c -o liblag.so */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND, SPEED, ANGLE, LARGEST, LAG, COUNT };
typedef struct { double value[COUNT]; } Motor;

#define NONE(name) int name(void) { return 3; } /* what it does not offer */
#define NONE_OF(type) NONE(fmi2Get##type) NONE(fmi2Set##type)
NONE(fmi2SetDebugLogging) NONE(fmi2Reset) NONE_OF(Integer) NONE_OF(Boolean) NONE_OF(String) NONE_OF(FMUstate) NONE(fmi2FreeFMUstate)
NONE(fmi2SerializedFMUstateSize) NONE(fmi2SerializeFMUstate) NONE(fmi2DeSerializeFMUstate) NONE(fmi2GetDirectionalDerivative)
NONE(fmi2SetRealInputDerivatives) NONE(fmi2GetRealOutputDerivatives) NONE(fmi2CancelStep) NONE(fmi2GetStatus) NONE(fmi2GetRealStatus)
NONE(fmi2GetIntegerStatus) NONE(fmi2GetBooleanStatus) NONE(fmi2GetStringStatus)
const char *fmi2GetVersion(void) { return "2.0"; }
const char *fmi2GetTypesPlatform(void) { return "default"; }
void *fmi2Instantiate(const char *name, int type, const char *guid, const char *resources, const void *callbacks, int visible, int log) {
    (void)name; (void)type; (void)resources; (void)callbacks; (void)visible; (void)log;
    if (strcmp(guid, "{lag}")) return NULL;
    Motor *c = calloc(1, sizeof *c);
    c->value[LARGEST] = 9.0;
    c->value[LAG] = 0.1;
    return c;
}
void fmi2FreeInstance(void *c) { free(c); }
int fmi2SetupExperiment(void *c, int tolerant, double tolerance, double start, int ends, double end) {
    (void)c; (void)tolerant; (void)tolerance; (void)start; (void)ends; (void)end;
    return 0;
}
int fmi2EnterInitializationMode(void *c) { (void)c; return 0; }
int fmi2ExitInitializationMode(void *c) { (void)c; return 0; }
int fmi2Terminate(void *c) { (void)c; return 0; }
int fmi2SetReal(void *c, const unsigned *references, size_t n, const double *values) {
    for (size_t i = 0; i < n; i++) ((Motor *)c)->value[references[i]] = values[i];
    return 0;
}
int fmi2GetReal(void *c, const unsigned *references, size_t n, double *values) {
    for (size_t i = 0; i < n; i++) values[i] = ((Motor *)c)->value[references[i]];
    return 0;
}
int fmi2DoStep(void *motor, double now, double span, int forward) {
    double *v = ((Motor *)motor)->value;
    (void)now; (void)forward;
    v[ANGLE] += span / (v[LAG] * (1.0 + 0.01 * v[SPEED])) * (v[COMMAND] * v[LARGEST] - v[ANGLE]);
    return 0;
}
