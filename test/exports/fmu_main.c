/* Drives the library of an FMU (FMI 2.0, co-simulation) over the rows of a file, inputs and slopes of steering, throttle and brake, 10 ms
   each; writes the states after each row. */
#include <stdio.h>
#include <stdlib.h>
#ifdef _WIN32
#include <windows.h>
#define OPEN(name) LoadLibraryA(name)
#define FIND(library, name) (void *)GetProcAddress(library, name)
#else
#include <dlfcn.h>
#define OPEN(name) dlopen(name, RTLD_NOW)
#define FIND(library, name) dlsym(library, name)
#endif

typedef unsigned int Reference;

int main(int count, char **words) {
  if (count != 8) return 2; /* LIBRARY GUID FIRST_STATE STATES REFERENCE_OF_SPEED INPUTS STATES_OUT */
  void *library = (void *)OPEN(words[1]);
  if (!library) return 3;
  void *(*instantiate)(const char *, int, const char *, const char *, const void *, int, int) = FIND(library, "fmi2Instantiate");
  int (*begin)(void *) = FIND(library, "fmi2ExitInitializationMode");
  int (*set)(void *, const Reference *, size_t, const double *) = FIND(library, "fmi2SetReal");
  int (*get)(void *, const Reference *, size_t, double *) = FIND(library, "fmi2GetReal");
  int (*slopes)(void *, const Reference *, size_t, const int *, const double *) = FIND(library, "fmi2SetRealInputDerivatives");
  int (*step)(void *, double, double, int) = FIND(library, "fmi2DoStep");
  const Reference inputs[] = {0, 1, 2}, speed = (Reference)atoi(words[5]);
  const int orders[] = {1, 1, 1}, n = atoi(words[4]);
  double row[6], start = 8.0;
  double *x = malloc((size_t)n * sizeof *x);
  Reference *states = malloc((size_t)n * sizeof *states);
  for (int i = 0; i < n; i++) states[i] = (Reference)(atoi(words[3]) + i);
  void *vehicle = instantiate("vehicle", 1, words[2], NULL, NULL, 0, 0);
  FILE *in = fopen(words[6], "rb"), *out = fopen(words[7], "wb");
  if (!vehicle || !in || !out || set(vehicle, &speed, 1, &start) || begin(vehicle)) return 4;
  for (int k = 0; fread(row, sizeof row, 1, in) == 1; k++) {
    if (set(vehicle, inputs, 3, row) || slopes(vehicle, inputs, 3, orders, row + 3) || step(vehicle, k * 0.01, 0.01, 0)) return 5;
    if (get(vehicle, states, (size_t)n, x) || fwrite(x, sizeof *x, (size_t)n, out) != (size_t)n) return 6;
  }
  return fclose(out) != 0;
}
