/*
** running.c - implements running.h, and formats the messages for faults, which are errors that
** kernels find in their data.
*/
#include "core/device/running.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

const char *(*_Atomic tli_call_site)(void);

static _Thread_local const char *running, *fault_argument;

void tli_set_operator(const char *op) { running = op; }
const char *tli_operator(void) { return running; }

static _Thread_local bool inside_operator;

bool tli_set_inside_operator(bool inside) {
  bool before = inside_operator;
  inside_operator = inside;
  return before;
}

bool tli_may_reshape(const char *op) {
  return !inside_operator ||
         tli_fail(TL_EARG,
                  "%s: a finalizer or a hook that an operator has called in its midst "
                  "cannot give a tensor other memory, sizes or strides",
                  op);
}

const char *tli_set_fault_argument(const char *argument) {
  const char *previous = fault_argument;
  fault_argument = argument;
  return previous;
}

/* Returns the last component of a dotted name. Messages use it, as in "linear" for
** "nn.functional.linear". */
static const char *last_part(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

tlk_FaultSource tli_fault_source_late(const char *op, const char *argument) {
  const char *(*site)(void) = tli_call_site;
  return (tlk_FaultSource){running ? last_part(running) : op,
                           fault_argument ? fault_argument : argument, site ? site() : NULL};
}

bool tlk_fault(const tlk_Context *cx, const tlk_Fault *fault) {
  if (cx->fault == NULL) return tli_fault_fail(fault);
  if (cx->fault->kind == TLK_NO_FAULT) *cx->fault = *fault;
  return false;
}

static tl_ErrorKind kind_of(tlk_FaultKind kind) {
  return kind == TLK_FAULT_DIVISION || kind == TLK_FAULT_RANGE ? TL_EARG : TL_EINDEX;
}

static void describe(const tlk_Fault *f, char *out, size_t size) {
  switch (f->kind) {
  case TLK_FAULT_POSITION:
  case TLK_FAULT_WRAPPED:
    if (f->size == 0)
      snprintf(out, size, "position %" PRId64 " is out of range: the dimension is empty", f->value);
    else if (f->kind == TLK_FAULT_POSITION)
      snprintf(out, size, "position %" PRId64 " is out of range: expected 1 to %" PRId64, f->value,
               f->size);
    else
      snprintf(out, size,
               "position %" PRId64 " is out of range: expected 1 to %" PRId64 " or -%" PRId64
               " to -1",
               f->value, f->size, f->size);
    return;
  case TLK_FAULT_LABEL:
    snprintf(out, size, "label %" PRId64 " is out of range: expected 1 to %" PRId64, f->value,
             f->size);
    return;
  case TLK_FAULT_RANGE:
    if (isinf(f->high))
      snprintf(out, size, "expected values of at least %g, got %g", f->low, f->number);
    else
      snprintf(out, size, "expected values from %g to %g, got %g", f->low, f->high, f->number);
    return;
  case TLK_FAULT_DIVISION: snprintf(out, size, "integer division by zero"); return;
  case TLK_NO_FAULT: snprintf(out, size, "no fault"); return;
  }
}

bool tli_fault_fail(const tlk_Fault *f) {
  char what[160];
  describe(f, what, sizeof what);
  const char *op = f->source.op, *argument = f->source.argument, *site = f->source.site;
  tli_fail(kind_of(f->kind), "%s%s%s%s%s%s%s%s", op ? op : "", op ? ": " : "",
           argument ? argument : "", argument ? ": " : "", what, site ? " (called at " : "",
           site ? site : "", site ? ")" : "");
  if (site) tli_error_set_late();
  return false;
}

/* the logger needs no lock: tlua.h forbids other threads to use the library while tl_set_logger
** runs */
static void (*_Atomic logger)(const char *text, void *user);
static void *logger_user;

void tl_set_logger(void (*log)(const char *text, void *user), void *user) {
  logger_user = user;
  atomic_store(&logger, log);
}

bool tli_log_line(const char *text) {
  void (*log)(const char *, void *) = atomic_load(&logger);
  if (log) log(text, logger_user);
  return log != NULL;
}

void tli_warning(const char *text) {
  void (*warn)(const char *) = atomic_load(&tli_warn);
  const char *(*site)(void) = atomic_load(&tli_call_site);
  if (atomic_load(&logger) == NULL) {
    if (warn) warn(text);
    return;
  }
  const char *line = site ? site() : NULL, *op = tli_operator();
  char whole[256];
  snprintf(whole, sizeof whole, "%s%s%s: %s", line ? line : "", line ? ": " : "",
           op ? op : "an operator", text);
  for (char *c = whole; *c; c++)
    /* a script's name may contain line feeds, but a warning is one line */
    if (*c == '\n') *c = ' ';
  tli_log_line(whole);
}
