/*
** fiber.cc - fibers: switches between stacks with a few instructions on known processors, otherwise
** with ucontext. Tells the address sanitizer about each switch.
*/
#include "spec/cuda/inside.h"

#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define USE_UCONTEXT
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES (512 * 1024)
#else
#define STACK_BYTES (128 * 1024)
#endif

namespace emulated {

struct Fiber {
  void *at; /* the stack pointer while another fiber runs */
  void (*body)();
  const void *bottom; /* lowest address of the stack */
  size_t bytes;
#ifdef USE_UCONTEXT
  ucontext_t context;
#endif
};

static Fiber *from_fiber; /* the fiber that ran before the last switch */

/* ---- the address sanitizer ------------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__
static void leave(void **fake, const Fiber *to) {
  __sanitizer_start_switch_fiber(fake, to->bottom, to->bytes);
}
/* Learns the bounds of the host's stack at the first switch away from that stack. */
static void arrive(void *fake) {
  const void *bottom;
  size_t bytes;
  __sanitizer_finish_switch_fiber(fake, &bottom, &bytes);
  from_fiber->bottom = bottom;
  from_fiber->bytes = bytes;
}
#else
static void leave(void **, const Fiber *) {}
static void arrive(void *) {}
#endif

/* ---- switching -------------------------------------------------------------------------- */

static Fiber *to_fiber;

extern "C" __attribute__((used, visibility("hidden"), noreturn)) void tlk_emulated_begin() {
  arrive(nullptr);
  to_fiber->body();
  abort(); /* a fiber's function must never return */
}

#ifdef USE_UCONTEXT

static void switch_stack(Fiber *from, Fiber *to) { swapcontext(&from->context, &to->context); }
static void prepare(Fiber *fiber, char *stack) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = STACK_BYTES;
  makecontext(&fiber->context, tlk_emulated_begin, 0);
}

#else

/* Saves the registers that a callee must preserve on the stack, and continues on another stack. */
extern "C" __attribute__((visibility("hidden"))) void tlk_emulated_switch(void **from, void *to);

#ifdef __x86_64__
enum { SAVED = 7, RETURN = 6 }; /* number of words saved, and which of them is the return address */
asm(".text\n"
    ".hidden tlk_emulated_switch\n"
    ".globl tlk_emulated_switch\n"
    ".type tlk_emulated_switch, @function\n"
    "tlk_emulated_switch:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n"
    "  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
    "  ret\n"
    ".size tlk_emulated_switch, .-tlk_emulated_switch\n");
#else
enum { SAVED = 20, RETURN = 11 };
asm(".text\n"
    ".hidden tlk_emulated_switch\n"
    ".globl tlk_emulated_switch\n"
    ".type tlk_emulated_switch, %function\n"
    "tlk_emulated_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n"
    "  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n"
    "  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n  ret\n"
    ".size tlk_emulated_switch, .-tlk_emulated_switch\n");
#endif

static void switch_stack(Fiber *from, Fiber *to) { tlk_emulated_switch(&from->at, to->at); }

/* Prepares a stack so that the first switch to the fiber returns into tlk_emulated_begin. */
static void prepare(Fiber *fiber, char *stack) {
  void **top = reinterpret_cast<void **>(stack + STACK_BYTES) - 2;
  void **at = top - SAVED - SAVED % 2;
  at[RETURN] = reinterpret_cast<void *>(tlk_emulated_begin);
  fiber->at = at;
}

#endif

void fiber_switch(Fiber *from, Fiber *to) {
  void *fake = nullptr;
  leave(&fake, to);
  from_fiber = from;
  to_fiber = to;
  switch_stack(from, to);
  arrive(fake);
}

/* Makes a fiber with a stack. The page below the stack is inaccessible, to detect overflows. */
Fiber *fiber_new(void (*body)()) {
  size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  char *stack = static_cast<char *>(mmap(nullptr, STACK_BYTES + guard, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (stack == MAP_FAILED || mprotect(stack, guard, PROT_NONE) != 0) stop("no memory for stacks");
  Fiber *fiber = new Fiber();
  fiber->body = body;
  fiber->bottom = stack + guard;
  fiber->bytes = STACK_BYTES;
  prepare(fiber, stack + guard);
  return fiber;
}

Fiber *fiber_of_host() { return new Fiber(); }

} // namespace emulated
