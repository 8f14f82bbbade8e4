/*
** generator.c - implements generator.h, which tracks positions. Kernels compute the random numbers
** themselves, by tli_philox.
*/
#include "core/device/generator.h"

#include "core/memory/alloc.h"
#include "core/device/capture.h"
#include "core/tensor/tensor.h"

tli_Generator *tli_generator_new(void) {
  tli_Generator *g = tli_alloc(sizeof *g);
  if (g == NULL) return NULL;
  *g = (tli_Generator){0};
  atomic_init(&g->refs, 1);
  return g;
}

tli_Generator *tli_generator_retain(tli_Generator *g) {
  if (atomic_load_explicit(&g->refs, memory_order_relaxed) > 0)
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
  return g;
}

void tli_generator_release(tli_Generator *g) {
  if (g == NULL || atomic_load_explicit(&g->refs, memory_order_relaxed) == 0) return;
  if (tli_last_reference(&g->refs)) tli_free(g, sizeof *g);
}

void tli_generator_seed_all(tli_Generator *g, uint64_t seed) {
  tli_generator_seed(g, seed);
  for (int i = 0; g->family && i < TLI_FAMILY; i++) g->family[i].own = false;
}

bool tli_generator_stretch(tli_Generator *g, tl_Device device, int64_t n, int per_block,
                           tli_Stretch *out) {
  *out = (tli_Stretch){0};
  if (device.type == TL_META) return true;
  tli_Capture *capture = tli_capture_of(device);
  g = tli_generator_of(g, device);
  if (capture) return tli_capture_draw(capture, g, tli_generator_blocks(n, per_block), out);
  *out = (tli_Stretch){g->seed, tli_generator_take(g, n, per_block), NULL};
  return true;
}
