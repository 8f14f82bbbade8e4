/*
** optim.h - the rules of optimizers. Each rule has one scalar definition, which the CPU and the GPU
** share. As in math.h, the definitions are valid in C and in CUDA C++.
**
**   TLM_FAMILY(name, body)  computes the coefficients of a family of rules in double.
**                           `o` are the options, `lr` the learning rate, `t` the clocks,
**                           which advance. The body sets c[3] and following, and
**                           DECAY(weight_decay, decoupled) sets c[1] or c[2].
**   TLM_RULE(name, body)    the step of one element in the compute type: parameter p,
**                           gradient g, states a, b and d (a state that the rule does
**                           not have is 0), coefficients c.
**
** c[0] is 1, or -1 to maximise; the gradient g that a rule gets is already multiplied by c[0]. c[1]
** is the weight decay that is added to the gradient. c[2] is the factor by which decoupled weight
** decay multiplies the parameter.
**
** The macros define the functions tlm_coefs_<family>, which advances the clocks by one step, and
** tlm_step_<rule>_<f32|f64>. The functions for clipping are tlm_clip_<f32|f64>. Bodies branch only
** on coefficients, so that loops around them vectorise. Options have PyTorch's names and order.
** Results follow PyTorch, with one exception: a moving mean is always beta m + (1 - beta) g,
** whereas PyTorch's lerp computes it from the nearer of m and g.
*/
#ifndef TLM_OPTIM_H
#define TLM_OPTIM_H

#include "kernels/math.h"

/* ---- clipping ------------------------------------------------------------------ */

/* Returns the norm of order `power`. `sum` is the sum of powers or, for order infinity, the largest
** magnitude. */
TLM_FN double tlm_norm_of(double sum, double power) {
  if (power == 2) return sqrt(sum);
  return power == 1 || power == (double)INFINITY ? sum : pow(sum, 1 / power);
}

/* Returns the factor that clips gradients of this norm to max_norm. If the norm is NaN, the factor
** is NaN. */
TLM_FN float tlm_clip_f32(float norm, float max_norm) {
  float factor = max_norm / (norm + 1e-6f);
  return factor > 1 ? 1 : factor;
}
TLM_FN double tlm_clip_f64(double norm, double max_norm) {
  double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

/* ---- coefficients -------------------------------------------------------------- */

#define TLM_FAMILY(name, ...)                                                      \
  TLM_FN void tlm_coefs_##name(const double *o, double lr, double *t, double *c) { \
    (void)o, (void)lr, (void)t;                                                    \
    c[1] = 0;                                                                      \
    c[2] = 1;                                                                      \
    __VA_ARGS__                                                                    \
  }
#define DECAY(weight_decay, decoupled)     \
  c[1] = (decoupled) ? 0 : (weight_decay); \
  c[2] = (decoupled) ? 1 - lr * (weight_decay) : 1;
#define MEAN(k, beta) \
  c[k] = (beta);      \
  c[(k) + 1] = 1 - (beta);

/* SGD. The options are lr, momentum, dampening, weight_decay, decoupled, and `first`, which tells
** whether the momentum buffer is new and takes the gradient as its first value. */
TLM_FAMILY(sgd, {
  DECAY(o[3], o[4] != 0)
  c[3] = o[5] != 0 ? 0 : o[1];
  c[4] = o[5] != 0 ? 1 : 1 - o[2];
  c[5] = o[1];
  c[6] = lr;
})
/* Adam. The options are lr, beta1, beta2, eps, weight_decay and decoupled. The clock is the step
** count. */
TLM_FAMILY(adam, {
  t[0] += 1;
  DECAY(o[4], o[5] != 0)
  MEAN(3, o[1])
  MEAN(5, o[2])
  c[7] = lr / (1 - pow(o[1], t[0]));
  c[8] = 1 / sqrt(1 - pow(o[2], t[0]));
  c[9] = o[3];
})
/* NAdam. The options are those of Adam, then momentum_decay. The clocks are the step count and the
** product of all momenta. */
TLM_FAMILY(nadam, {
  t[0] += 1;
  DECAY(o[4], o[5] != 0)
  double now = o[1] * (1 - 0.5 * pow(0.96, t[0] * o[6]));
  double next = o[1] * (1 - 0.5 * pow(0.96, (t[0] + 1) * o[6]));
  t[1] *= now;
  MEAN(3, o[1])
  MEAN(5, o[2])
  c[7] = lr * (1 - now) / (1 - t[1]);
  c[8] = lr * next / (1 - t[1] * next);
  c[9] = 1 / (1 - pow(o[2], t[0]));
  c[10] = o[3];
})
/* RAdam. The options and the clock are those of Adam. c[8] is 0 until the moving mean of squares
** covers enough steps to divide by it. */
TLM_FAMILY(radam, {
  t[0] += 1;
  DECAY(o[4], o[5] != 0)
  MEAN(3, o[1])
  MEAN(5, o[2])
  double power = pow(o[2], t[0]);
  double longest = 2 / (1 - o[2]) - 1;
  double length = longest - 2 * t[0] * power / (1 - power);
  double rectified = (length - 4) * (length - 2) * longest;
  rectified /= (longest - 4) * (longest - 2) * length;
  c[7] = lr / (1 - pow(o[1], t[0]));
  c[8] = length > 5 ? c[7] * sqrt(rectified * (1 - power)) : 0;
  c[9] = o[3];
})
/* Adamax. The options are lr, beta1, beta2, eps and weight_decay. The clock is the step count. */
TLM_FAMILY(adamax, {
  t[0] += 1;
  DECAY(o[4], false)
  MEAN(3, o[1])
  c[5] = o[2];
  c[6] = o[3];
  c[7] = lr / (1 - pow(o[1], t[0]));
})
/* Adagrad. The options are lr, lr_decay, eps and weight_decay. The clock is the step count. */
TLM_FAMILY(adagrad, {
  t[0] += 1;
  DECAY(o[3], false)
  c[3] = lr / (1 + (t[0] - 1) * o[1]);
  c[4] = o[2];
})
/* Adadelta. The options are lr, rho, eps and weight_decay. The clock is the step count. */
TLM_FAMILY(adadelta, {
  t[0] += 1;
  DECAY(o[3], false)
  MEAN(3, o[1])
  c[5] = lr;
  c[6] = o[2];
})
/* RMSprop. The options are lr, alpha, eps, weight_decay and momentum. The clock is the step
** count. */
TLM_FAMILY(rmsprop, {
  t[0] += 1;
  DECAY(o[3], false)
  MEAN(3, o[1])
  c[5] = lr;
  c[6] = o[2];
  c[7] = o[4];
})
/* Rprop. The options are lr, which is the initial step size; the factors by which a step size
** shrinks and grows; and the smallest and the largest step size. The clock is the step count. */
TLM_FAMILY(rprop, {
  t[0] += 1;
  for (int k = 1; k < 5; k++) c[2 + k] = o[k];
})
/* ASGD. The options are lr, lambd, alpha, t0 and weight_decay. The clocks are the step count, the
** rate of the next step, and the weight of the next step's parameters in the mean. */
TLM_FAMILY(asgd, {
  DECAY(o[4], false)
  c[2] = 1 - o[1] * t[1];
  c[3] = t[1];
  c[4] = t[2];
  t[0] += 1;
  t[1] = lr / pow(1 + o[1] * lr * t[0], o[2]);
  t[2] = t[0] - o[3] > 1 ? 1 / (t[0] - o[3]) : 1;
})
/* Lion. The options are lr, beta1, beta2 and weight_decay. */
TLM_FAMILY(lion, {
  DECAY(o[3], true)
  MEAN(3, o[1])
  MEAN(5, o[2])
  c[7] = lr;
})
/* Muon. The options are momentum, and lr, which this family does not use. */
TLM_FAMILY(muon, {MEAN(3, o[1])})
/* A moving mean, computed by linear interpolation. lr is the weight of the gradient. */
TLM_FAMILY(lerp, {MEAN(3, 1 - lr)})

#undef DECAY
#undef MEAN

/* ---- steps ---------------------------------------------------------------------- */

#define TLM_STEP_(name, s, type, ...)                                                           \
  TLM_FN type tlm_step_##name##_##s(type p, type g, type *a, type *b, type *d, const type *c) { \
    typedef type T __attribute__((unused));                                                     \
    (void)p, (void)a, (void)b, (void)d;                                                         \
    __VA_ARGS__                                                                                 \
  }
#define TLM_RULE(name, ...)                \
  TLM_STEP_(name, f32, float, __VA_ARGS__) \
  TLM_STEP_(name, f64, double, __VA_ARGS__)

/* Adds weight decay to the gradient. The product is skipped if c[1] is 0, because 0 times an
** infinite parameter would be NaN. */
#define DECAYED g = c[1] != 0 ? g + c[1] * p : g;
#define MEAN(m, x, k) m = c[k] * m + c[(k) + 1] * (x);
#define SIGN(x) ((T)(((x) > 0) - ((x) < 0)))

TLM_RULE(sgd, DECAYED return p * c[2] - c[6] * g;)
TLM_RULE(sgd_momentum, {
  DECAYED
  *a = c[3] * *a + c[4] * g;
  return p * c[2] - c[6] * *a;
})
TLM_RULE(sgd_nesterov, {
  DECAYED
  *a = c[3] * *a + c[4] * g;
  return p * c[2] - c[6] * (g + c[5] * *a);
})

/* Updates the moments. a is the moving mean of gradients, b the moving mean of their squares, and d
** the largest b so far. */
#define MOMENTS \
  DECAYED       \
  MEAN(*a, g, 3) MEAN(*b, g *g, 5)
TLM_RULE(adam, {
  MOMENTS
  return p * c[2] - c[7] * *a / (sqrt(*b) * c[8] + c[9]);
})
TLM_RULE(amsgrad, {
  MOMENTS
  *d = TLM_LARGER(*d, *b);
  return p * c[2] - c[7] * *a / (sqrt(*d) * c[8] + c[9]);
})
TLM_RULE(nadam, {
  MOMENTS
  return p * c[2] - (c[7] * g + c[8] * *a) / (sqrt(*b * c[9]) + c[10]);
})
TLM_RULE(radam, {
  MOMENTS
  return p * c[2] - (c[8] != 0 ? c[8] * *a / (sqrt(*b) + c[9]) : c[7] * *a);
})
TLM_RULE(adamax, {
  DECAYED
  MEAN(*a, g, 3)
  T low = *b * c[5], high = fabs(g) + c[6];
  *b = TLM_LARGER(low, high);
  return p - c[7] * *a / *b;
})

TLM_RULE(adagrad, {
  DECAYED
  *a += g * g;
  return p - c[3] * g / (sqrt(*a) + c[4]);
})
/* Adadelta. a is the moving mean of the squares of gradients, b the moving mean of the squares of
** steps. */
TLM_RULE(adadelta, {
  DECAYED
  MEAN(*a, g * g, 3)
  T delta = sqrt(*b + c[6]) / sqrt(*a + c[6]) * g;
  MEAN(*b, delta * delta, 3)
  return p - c[5] * delta;
})
/* RMSprop. a is the moving mean of the squares of gradients, and b is the momentum buffer. In
** centered rules b is the moving mean of gradients, and d is the momentum buffer. */
TLM_RULE(rmsprop, {
  DECAYED
  MEAN(*a, g * g, 3)
  return p - c[5] * g / (sqrt(*a) + c[6]);
})
TLM_RULE(rmsprop_momentum, {
  DECAYED
  MEAN(*a, g * g, 3)
  *b = c[7] * *b + g / (sqrt(*a) + c[6]);
  return p - c[5] * *b;
})
TLM_RULE(rmsprop_centered, {
  DECAYED
  MEAN(*a, g * g, 3)
  MEAN(*b, g, 3)
  return p - c[5] * g / (sqrt(*a - *b * *b) + c[6]);
})
TLM_RULE(rmsprop_centered_momentum, {
  DECAYED
  MEAN(*a, g * g, 3)
  MEAN(*b, g, 3)
  *d = c[7] * *d + g / (sqrt(*a - *b * *b) + c[6]);
  return p - c[5] * *d;
})

/* Rprop. a is the previous gradient, or 0 if that gradient was skipped. b is the step size. */
TLM_RULE(rprop, {
  T turn = g * *a;
  T factor = turn > 0 ? c[4] : turn < 0 ? c[3] : turn == 0 ? 1 : turn;
  T size = *b * factor;
  size = TLM_LARGER(size, c[5]);
  *b = TLM_SMALLER(size, c[6]);
  *a = turn < 0 ? 0 : g;
  return p - SIGN(*a) * *b;
})
/* ASGD. a is the mean of the parameters. */
TLM_RULE(asgd, {
  DECAYED
  p = p * c[2] - c[3] * g;
  *a = c[4] == 1 ? p : *a + (p - *a) * c[4];
  return p;
})
TLM_RULE(lion, {
  T along = *a;
  MEAN(along, g, 3)
  MEAN(*a, g, 5)
  return p * c[2] - c[7] * SIGN(along);
})
/* Muon. a is the momentum buffer. The result is the update, which Muon makes orthogonal
** afterwards. */
TLM_RULE(muon, {
  MEAN(*a, g, 3)
  return *a;
})
TLM_RULE(muon_nesterov, {
  MEAN(*a, g, 3)
  return c[4] * g + c[3] * *a;
})
/* Moves p, a moving mean of parameters, towards g. */
TLM_RULE(lerp, return c[3] * p + c[4] * g;)

#undef DECAYED
#undef MEAN
#undef MOMENTS
#undef SIGN

#endif
