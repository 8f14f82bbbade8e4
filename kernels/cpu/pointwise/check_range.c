/*
** check_range.c - checks that all elements are between two numbers.
*/
#include <stdatomic.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/cpu.h"

typedef struct Check {
  const struct tlk_check_range *call;
  tlk_FirstFault first;
} Check;

static double element(const tlk_Array *in, int64_t i) {
  return in->dtype == TL_F64 ? ((const double *)in->data)[i] : (double)((const float *)in->data)[i];
}

static bool outside(double x, const struct tlk_check_range *call) {
  /* written with `!`, so that NaN counts as out of range */
  return !(x >= call->low && x <= call->high);
}

#define DEFINE_ANY(name, type)                                                      \
  static bool name(const type *in, int64_t n, const struct tlk_check_range *call) { \
    bool any = false;                                                               \
    for (int64_t i = 0; i < n; i++) any |= outside((double)in[i], call);            \
    return any;                                                                     \
  }
DEFINE_ANY(any_f32, float)
DEFINE_ANY(any_f64, double)

static void check_piece(void *context, int64_t begin, int64_t end) {
  Check *c = context;
  const tlk_Array *in = &c->call->in;
  bool any = in->dtype == TL_F64 ? any_f64((const double *)in->data + begin, end - begin, c->call)
                                 : any_f32((const float *)in->data + begin, end - begin, c->call);
  for (int64_t i = begin; any && i < end; i++) {
    if (!outside(element(in, i), c->call)) continue;
    tlk_note_fault(&c->first, i);
    return;
  }
}

bool tlk_check_range(const struct tlk_check_range *call) {
  Check c = {.call = call};
  tli_parallel_pieces(call->n, 4 * TLK_GRAIN, check_piece, &c);
  if (!atomic_load(&c.first.found)) return true;
  return tlk_fault(call->cx,
                   &(tlk_Fault){.kind = TLK_FAULT_RANGE,
                                .source = call->source,
                                .number = element(&call->in, atomic_load(&c.first.position)),
                                .low = call->low,
                                .high = call->high});
}
