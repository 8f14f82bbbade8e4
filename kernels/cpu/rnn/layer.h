/*
** layer.h - code that the forward and backward pass of a recurrent layer share. Both compute in
** float or double; arrays of half types are converted as a whole.
**
** A row of gates belongs to one step of one sample. For GRU the row has four parts: new, reset,
** update, and the state's contribution to new. In this order the three parts that the input
** contributes to are adjacent, and so are the three parts that the state contributes to.
*/
#ifndef TLK_LAYER_H
#define TLK_LAYER_H

#include "kernels/cpu/matmul/packed.h"
#include "kernels/cpu/cpu.h"

/* The smallest number of multiplications for each thread; with fewer, another thread is not
** worthwhile. */
#define TLK_RNN_SMALL (64 * 64 * 64)

/* Inner loops over the n hidden units of one row. There is one set for float and one for double. */
typedef struct tlk_RnnLoops {
  /* These functions replace the sums of the gates by activations, in place. `bias` has one number
  ** for each column. */
  void (*rnn_relu)(int64_t n, void *gates, const void *bias);
  void (*rnn_tanh)(int64_t n, void *gates, const void *bias);
  void (*lstm)(int64_t n, void *gates, const void *bias, const void *cell_before, void *cell,
               void *tanh_cell, void *out);
  void (*gru)(int64_t n, void *gates, const void *bias, const void *before, void *out);
  /* These functions compute `grad`, the gradient of the gates before activation. The gradient of
  ** `out` is grad_state + grad_out. */
  void (*relu_back)(int64_t n, void *grad, const void *out, const void *grad_state,
                    const void *grad_out);
  void (*tanh_back)(int64_t n, void *grad, const void *out, const void *grad_state,
                    const void *grad_out);
  /* Computes the gradients of the gates of LSTM. `grad_cell` is the gradient of the cell before the
  ** call, and the gradient of the previous cell after it. */
  void (*lstm_back)(int64_t n, void *grad, const void *gates, const void *cell_before,
                    const void *tanh_cell, const void *grad_state, const void *grad_out,
                    void *grad_cell);
  /* Computes the gradients of the gates of GRU. grad_state receives the part of the previous
  ** state's gradient that does not go through the gates. */
  void (*gru_back)(int64_t n, void *grad, const void *gates, const void *before, void *grad_state,
                   const void *grad_out);
  /* to = a + b */
  void (*add)(int64_t n, void *to, const void *a, const void *b);
} tlk_RnnLoops;

/* Some adjacent rows of a weight, and the column of a row of gates where their results begin. All
** three numbers are in units of `hidden`. */
typedef struct tlk_RnnPart {
  int64_t row, rows, column;
} tlk_RnnPart;

/* The layout of a row of gates. Positions and sizes are multiples of `hidden`. */
typedef struct tlk_RnnLayout {
  int64_t width;
  /* the part of the row to which the product of weight_hh and the state contributes */
  tlk_RnnPart state;
  int inputs; /* number of parts in `input` */
  /* the parts of the row to which the product of weight_ih and the input contributes */
  tlk_RnnPart input[2];
} tlk_RnnLayout;
extern const tlk_RnnLayout tlk_rnn_layouts[]; /* layouts, indexed by tlk_RnnMode */

/* A layer and its memory. All numbers are in the compute type. */
typedef struct tlk_RnnLayer {
  tlk_Rnn rnn;
  const tlk_RnnLayout *layout;
  const tlk_RnnLoops *loops;
  int64_t size; /* size of an element in bytes */
  /* Arrays (rows, ...) that the forward pass keeps for the backward pass. LSTM has all of them, and
  ** GRU has only `gates`. The other layers have none, since their outputs are their gates.
  ** `unprojected` holds the outputs before the projection; it is used only if there is one. */
  char *gates, *cell, *tanh_cell, *unprojected;
} tlk_RnnLayer;

/* tlk_rnn_first returns the first row of step t, and tlk_rnn_count returns the number of rows of
** step t. */
static inline int64_t tlk_rnn_first(const tlk_Rnn *r, int64_t t) {
  return r->offsets ? r->offsets[t] : t * r->batch;
}
static inline int64_t tlk_rnn_count(const tlk_Rnn *r, int64_t t) {
  return r->offsets ? r->offsets[t + 1] - r->offsets[t] : r->batch;
}

/* One step of the samples with numbers below `end`. Samples below `joins` have already made a step;
** the other samples begin at this step. Samples below `stays` will make another step; the other
** samples end at this step. Steps are processed in the layer's direction. */
typedef struct tlk_RnnStep {
  int64_t end;
  /* row of sample 0 in this step, and row of sample 0 in the step processed before */
  int64_t first, before;
  int64_t joins, stays;
} tlk_RnnStep;
tlk_RnnStep tlk_rnn_step(const tlk_Rnn *r, int64_t t, int64_t end);

/* Returns the layer. Its arrays are in the memory `reserve`; they are NULL if `reserve` is NULL. */
tlk_RnnLayer tlk_rnn_layer(const tlk_Rnn *rnn, void *reserve);

/* Calls fn for ranges of samples on several threads if there are enough samples and work. Otherwise
** calls fn once for all samples, and fn may divide each matrix product among threads. Returns false
** if the user interrupted the work. */
bool tlk_rnn_share(const tlk_Rnn *r, void (*fn)(void *context, int64_t begin, int64_t end),
                   void *context);

/* Multiplies `a` by the whole packed matrix. If tlk_rnn_share has divided the samples among
** threads, the calling thread computes all panels. Otherwise the panels are divided among
** threads. */
void tlk_rnn_multiply(const tlk_Packed *matrix, int64_t rows, const void *a, int64_t a_step,
                      bool add, void *c, int64_t c_step);

/* An array that may have a half type, and its copy in the compute type. */
typedef struct tlk_RnnArray {
  tlk_Array given, wide;
  int64_t n;
  bool result;
} tlk_RnnArray;

#define TLK_RNN_ARRAYS 24

typedef struct tlk_RnnArrays {
  tl_DType dtype;
  int count;
  bool failed;
  tlk_RnnArray v[TLK_RNN_ARRAYS];
} tlk_RnnArrays;

/* These functions return the array in the compute type. The result is NULL if `data` is NULL, or
** after a failure. */
const void *tlk_rnn_operand(tlk_RnnArrays *a, const void *data, int64_t n);
void *tlk_rnn_result(tlk_RnnArrays *a, void *data, int64_t n);
/* Returns a copy of the layer whose weights and biases are converted to the compute type. */
tlk_Rnn tlk_rnn_weights(tlk_RnnArrays *a, const tlk_Rnn *rnn);
/* Converts the results back to the given arrays if `ok`, and frees all copies. */
void tlk_rnn_arrays_end(tlk_RnnArrays *a, bool ok);

#endif
