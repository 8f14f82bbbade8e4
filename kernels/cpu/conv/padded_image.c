/* padded_image.c - copies images to scratch memory in the layout of padded_image.h. */
#include "kernels/cpu/conv/padded_image.h"

#include <string.h>

#include "kernels/cpu/block_walk.h"

static void finish_layout(tlk_ConvLayout *l) {
  l->channel = tlk_conv_product(l->phases) * tlk_conv_product(l->pitch);
}

tlk_ConvLayout tlk_conv_input_layout(const tlk_Windows *w) {
  tlk_ConvLayout l;
  for (int d = 0; d < 3; d++) {
    int64_t reach = w->dilation[d] * (w->kernel[d] - 1) + 1;
    l.sizes[d] = w->in[d];
    l.before[d] = w->padding[d];
    l.step[d] = w->stride[d];
    l.phases[d] = tlk_min(w->stride[d], reach);
    l.pitch[d] = tlk_ceil_div(w->in[d] + 2 * w->padding[d], w->stride[d]);
  }
  finish_layout(&l);
  return l;
}

tlk_ConvLayout tlk_conv_output_layout(const tlk_Windows *w) {
  tlk_ConvLayout l;
  for (int d = 0; d < 3; d++) {
    int64_t last = (w->padding[d] + w->in[d] - 1) / w->stride[d];
    l.sizes[d] = w->out[d];
    l.before[d] = w->dilation[d] * (w->kernel[d] - 1) / w->stride[d];
    l.step[d] = 1;
    l.phases[d] = 1;
    l.pitch[d] = l.before[d] + tlk_max(last + 1, w->out[d]);
  }
  finish_layout(&l);
  return l;
}

void tlk_conv_strided(char *dst, const char *src, int64_t n, int64_t step, int64_t size) {
  if (step == 1) {
    memcpy(dst, src, (size_t)(n * size));
  } else if (size == 4) {
    float *to = (float *)(void *)dst;
    const float *from = (const float *)(const void *)src;
    for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
  } else {
    double *to = (double *)(void *)dst;
    const double *from = (const double *)(const void *)src;
    for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
  }
}

/* Copies the elements of one row of the image that belong to one phase. */
static void copy_row(const tlk_ConvLayout *l, char *dst, const char *src, int64_t phase,
                     int64_t size) {
  /* index in the image of the element at position 0 of the plane */
  int64_t first = phase - l->before[2];
  int64_t skip = first < 0 ? tlk_ceil_div(-first, l->step[2]) : 0;
  int64_t from = first + skip * l->step[2];
  if (from >= l->sizes[2]) return;
  int64_t n = tlk_min(tlk_ceil_div(l->sizes[2] - from, l->step[2]), l->pitch[2] - skip);
  if (n > 0) tlk_conv_strided(dst + skip * size, src + from * size, n, l->step[2], size);
}

/* Copies a channel that is not split into planes, because windows move in steps of 1. */
static void copy_plane(const tlk_ConvLayout *l, char *dst, const char *src, int64_t size) {
  int64_t bytes = l->sizes[2] * size, row = l->pitch[2] * size;
  dst += l->before[2] * size;
  for (int64_t i = 0; i < l->sizes[0]; i++) {
    char *to = dst + ((i + l->before[0]) * l->pitch[1] + l->before[1]) * row;
    for (int64_t j = 0; j < l->sizes[1]; j++, to += row, src += bytes)
      memcpy(to, src, (size_t)bytes);
  }
}

/* Copies a channel that is split into several planes to dst. The padding in dst is already zero. */
static void copy_channel(const tlk_ConvLayout *l, char *dst, const char *src, int64_t size) {
  int64_t plane = tlk_conv_product(l->pitch);
  for (int64_t i = 0; i < l->sizes[0]; i++)
    for (int64_t j = 0; j < l->sizes[1]; j++, src += l->sizes[2] * size) {
      int64_t a = i + l->before[0], b = j + l->before[1];
      int64_t pa = a % l->step[0], pb = b % l->step[1];
      if (pa >= l->phases[0] || pb >= l->phases[1]) continue;
      int64_t row = a / l->step[0] * l->pitch[1] + b / l->step[1];
      for (int64_t c = 0; c < l->phases[2]; c++) {
        int64_t phase = (pa * l->phases[1] + pb) * l->phases[2] + c;
        copy_row(l, dst + (phase * plane + row * l->pitch[2]) * size, src, c, size);
      }
    }
}

void tlk_conv_copy(const tlk_ConvLayout *l, int64_t channels, char *dst, const char *src,
                   int64_t size) {
  int64_t image = tlk_conv_product(l->sizes) * size;
  bool whole = l->step[0] == 1 && l->step[1] == 1 && l->step[2] == 1;
  for (int64_t c = 0; c < channels; c++)
    (whole ? copy_plane : copy_channel)(l, dst + c * l->channel * size, src + c * image, size);
}

int64_t tlk_conv_offset(const tlk_ConvLayout *l, const tlk_Windows *w, const int64_t tap[3]) {
  int64_t phase = 0, at = 0;
  for (int d = 0; d < 3; d++) {
    int64_t reach = tap[d] * w->dilation[d];
    phase = phase * l->phases[d] + reach % l->step[d];
    at = at * l->pitch[d] + reach / l->step[d];
  }
  return phase * tlk_conv_product(l->pitch) + at;
}

bool tlk_conv_next_tap(const int64_t kernel[3], int64_t tap[3]) {
  for (int d = 2; d >= 0; d--) {
    if (++tap[d] < kernel[d]) return true;
    tap[d] = 0;
  }
  return false;
}
