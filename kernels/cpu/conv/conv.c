/*
** conv.c - convolution and its gradients for any floating dtype; half types are computed in
** float32, except in dot1x1.c. conv1x1.c handles kernels of one element; winograd.c handles large
** convolutions in float32 with 3 x 3 kernels. plan.c describes all other convolutions, and the
** gradient of the input, as weighted sums. scatter.c computes the gradient of the input for small
** images. weight_direct.c and weight_gemm.c compute the gradient of the weight. One thread sums
** each output element in an order that depends on the sizes alone.
*/
#include "kernels/cpu/conv/conv.h"

#include "core/platform/parallel.h"
#include "kernels/cpu/conv/padded_image.h"
#include "kernels/cpu/conv/plan.h"
#include "kernels/cpu/conv/winograd.h"
#include "kernels/cpu/upcast.h"

typedef struct Sizes {
  int64_t in, out, weight;
} Sizes;

static Sizes sizes_of(const tlk_Conv *c) {
  return (Sizes){c->batch * c->channels_in * tlk_conv_product(c->windows.in),
                 c->batch * c->channels_out * tlk_conv_product(c->windows.out),
                 c->channels_out * (c->channels_in / c->groups) *
                     tlk_conv_product(c->windows.kernel)};
}

/* A function that computes an array `to`, which is a convolution or a gradient, from the arrays a
** and b, all in the compute dtype. There is one function for each method. Each kernel of this file
** chooses among methods in a function of its own, so a small library links only the methods that
** its kernels use. */
typedef bool (*Method)(const tlk_Conv *c, void *to, const void *a, const void *b, const void *bias);

/* Computes the convolution or, if `backward`, the gradient of its input, as the weighted sums that
** plan.h describes. */
static bool plan_sums(const tlk_Conv *c, bool backward, void *out, const void *in,
                      const void *weight, const void *bias) {
  tlk_ConvPlan p = {.conv = c, .in = in, .bias = bias, .out = out};
  bool ok = tlk_conv_plan(&p, backward, weight);
  if (ok && p.tile)
    tlk_conv_run_gemm(&p);
  else if (ok)
    tlk_conv_run_direct(&p);
  tlk_conv_plan_free(&p);
  return ok && !p.failed;
}

static bool forward_or_input(const tlk_Conv *c, bool backward, void *out, const void *in,
                             const void *weight, const void *bias) {
  if (tlk_conv1x1(c)) return tlk_conv1x1_sums(c, backward, out, in, weight, bias);
  if (tlk_winograd_fits(c)) {
    bool finite;
    TL_TRY(tlk_winograd_sums(c, backward, out, in, weight, bias, &finite));
    if (finite) return true;
  }
  return plan_sums(c, backward, out, in, weight, bias);
}

static bool forward(const tlk_Conv *c, void *out, const void *in, const void *weight,
                    const void *bias) {
  return forward_or_input(c, false, out, in, weight, bias);
}

static bool input(const tlk_Conv *c, void *grad_in, const void *grad_out, const void *weight,
                  const void *bias) {
  if (!tlk_conv1x1(c) && !tlk_winograd_fits(c) && tlk_conv_scatters(c))
    return tlk_conv_scatter(c, grad_in, grad_out, weight);
  return forward_or_input(c, true, grad_in, grad_out, weight, bias);
}

static bool weight(const tlk_Conv *c, void *grad_weight, const void *in, const void *grad_out,
                   const void *bias) {
  (void)bias;
  if (tlk_conv1x1(c)) return tlk_conv1x1_weight(c, grad_weight, in, grad_out);
  if (tlk_winograd_fits(c)) {
    bool finite;
    TL_TRY(tlk_winograd_weight(c, grad_weight, in, grad_out, &finite));
    if (finite) return true;
  }
  bool many =
      tlk_conv_many(c, c->channels_out / c->groups, c->batch * tlk_conv_product(c->windows.out));
  return (many ? tlk_conv_weight_gemm : tlk_conv_weight_direct)(c, grad_weight, in, grad_out);
}

static bool run(const tlk_Conv *c, Method method, void *to, const void *a, const void *b,
                const void *bias) {
  bool ok = method(c, to, a, b, bias);
  /* a method that the user interrupts sets no message, so tli_go_on sets the message here */
  return tli_go_on() && ok;
}

static bool in_wide(const tlk_Conv *c, Method method, void *to, int64_t nto, const void *a,
                    int64_t na, const void *b, int64_t nb, const void *bias) {
  if (c->dtype == TL_F32 || c->dtype == TL_F64) return run(c, method, to, a, b, bias);
  tlk_Conv wide = *c;
  wide.dtype = TL_F32;
  tlk_Array out = {to, c->dtype}, x = {(void *)(intptr_t)a, c->dtype};
  tlk_Array y = {(void *)(intptr_t)b, c->dtype}, z = {(void *)(intptr_t)bias, c->dtype};
  tlk_Array wout = tlk_upcast(out, nto, false), wx = tlk_upcast(x, na, true);
  tlk_Array wy = tlk_upcast(y, nb, true), wz = tlk_upcast(z, c->channels_out, true);
  bool ok = wout.data && wx.data && wy.data && (bias == NULL || wz.data) &&
            run(&wide, method, wout.data, wx.data, wy.data, wz.data);
  if (ok)
    tlk_downcast(out, wout, nto);
  else
    tlk_upcast_free(wout, out, nto);
  tlk_upcast_free(wx, x, na);
  tlk_upcast_free(wy, y, nb);
  tlk_upcast_free(wz, z, c->channels_out);
  return ok;
}

bool tlk_conv(const struct tlk_conv *call) {
  const tlk_Conv *c = &call->conv;
  Sizes n = sizes_of(c);
  if (tlk_conv_dot1x1(c))
    return tlk_conv_dot1x1_sums(c, false, call->out, call->in, call->weight, call->bias);
  return in_wide(c, forward, call->out, n.out, call->in, n.in, call->weight, n.weight, call->bias);
}

bool tlk_conv_input(const struct tlk_conv_input *call) {
  const tlk_Conv *c = &call->conv;
  Sizes n = sizes_of(c);
  if (tlk_conv_dot1x1(c))
    return tlk_conv_dot1x1_sums(c, true, call->grad_in, call->grad_out, call->weight, NULL);
  return in_wide(c, input, call->grad_in, n.in, call->grad_out, n.out, call->weight, n.weight,
                 NULL);
}

bool tlk_conv_weight(const struct tlk_conv_weight *call) {
  const tlk_Conv *c = &call->conv;
  Sizes n = sizes_of(c);
  if (tlk_conv_dot1x1(c))
    return tlk_conv_dot1x1_weight(c, call->grad_weight, call->in, call->grad_out);
  return in_wide(c, weight, call->grad_weight, n.weight, call->in, n.in, call->grad_out, n.out,
                 NULL);
}
