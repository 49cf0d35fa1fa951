/* Drives an exported vehicle (NAME v) on a bare Cortex-M7 and tells the host its states in hexadecimal, by semihosting. */
#include <stdint.h>

#include "v.h"

extern uint32_t stack_top;
int main(void);
static void tell(uint32_t operation, const void *what) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = what;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void start(void) {
  *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* the floating-point unit */
  __asm__ volatile("dsb\nisb");
  main();
  tell(0x18, (const void *)0x20026); /* the end */
}
__attribute__((section(".vectors"), used)) const void *const vectors[2] = {&stack_top, (const void *)start};

int main(void) {
  const double place[v_place_count] = {[v_place_vx] = 12.0};
  static double x[v_x_count], q[v_q_count];
  double u0[v_u_count] = {0}, u1[v_u_count] = {0};
  v_start(v_parameters, place, x);
  v_prepare(v_parameters, q);
  for (int k = 0; k < 100; ++k) {
    u1[v_u_steering] = k % 20 < 10 ? 0.1 : -0.1;
    u1[v_u_throttle] = 0.3;
    if (!v_advance(x, q, u0, u1, 10, 1e-3)) return 1;
    for (int i = 0; i < v_u_count; ++i) u0[i] = u1[i];
  }
  for (int i = 0; i < v_x_count; ++i) {
    union { double number; uint64_t bits; } value = {x[i]};
    char text[18] = {0};
    for (int digit = 0; digit < 16; ++digit) text[digit] = "0123456789abcdef"[value.bits >> (60 - 4 * digit) & 15];
    text[16] = '\n';
    tell(0x04, text);
  }
  return 0;
}
