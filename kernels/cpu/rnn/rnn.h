/*
** rnn.h - what the passes of a recurrent layer share. Both work in float or double;
** arrays of the half types are converted as a whole.
**
** A row of gates has one step of one sample. Of GRU it is new, reset, update, and what
** the state contributes to new: so those that the input makes and those that the state
** makes are runs of columns.
*/
#ifndef TLK_RNN_H
#define TLK_RNN_H

#include "kernels/cpu/matmul/packed.h"
#include "kernels/cpu/cpu.h"

/* Multiplications worth a thread. */
#define TLK_RNN_SMALL (64 * 64 * 64)

/* Inner loops over the n units of one row; one set for float, one for double. */
typedef struct tlk_RnnLoops {
  /* gates: from sums to activations, in place. bias is as a row of gates. */
  void (*rnn_relu)(int64_t n, void *gates, const void *bias);
  void (*rnn_tanh)(int64_t n, void *gates, const void *bias);
  void (*lstm)(int64_t n, void *gates, const void *bias, const void *cell_before, void *cell,
               void *tanh_cell, void *out);
  void (*gru)(int64_t n, void *gates, const void *bias, const void *before, void *out);
  /* grad: of gates, before their activations. The gradient of the output is the sum of
  ** grad_state and grad_out. */
  void (*relu_back)(int64_t n, void *grad, const void *out, const void *grad_state,
                    const void *grad_out);
  void (*tanh_back)(int64_t n, void *grad, const void *out, const void *grad_state,
                    const void *grad_out);
  /* grad_cell: of the cell, then of the one before. */
  void (*lstm_back)(int64_t n, void *grad, const void *gates, const void *cell_before,
                    const void *tanh_cell, const void *grad_state, const void *grad_out,
                    void *grad_cell);
  /* grad_state becomes what goes to the state before past the gates. */
  void (*gru_back)(int64_t n, void *grad, const void *gates, const void *before, void *grad_state,
                   const void *grad_out);
  /* to = a + b */
  void (*add)(int64_t n, void *to, const void *a, const void *b);
} tlk_RnnLoops;

/* Rows of a weight that make a run of a gate row's columns, in units of `hidden`. */
typedef struct tlk_RnnPart {
  int64_t row, rows, column;
} tlk_RnnPart;

/* How a row of gates is laid out, in units of `hidden`. */
typedef struct tlk_RnnLayout {
  int64_t width;
  tlk_RnnPart state;    /* what weight_hh makes */
  int inputs;           /* parts that weight_ih makes */
  tlk_RnnPart input[2]; /* the second one does not begin a row of the weight */
} tlk_RnnLayout;
extern const tlk_RnnLayout tlk_rnn_layouts[]; /* by tlk_RnnMode */

/* A layer and its memory, in the type that is computed in. */
typedef struct tlk_RnnLayer {
  tlk_Rnn rnn;
  const tlk_RnnLayout *layout;
  const tlk_RnnLoops *loops;
  int64_t size; /* of an element */
  /* What the forward pass leaves, (rows, ...): gates, and of LSTM cell, tanh of cell
  ** and the output before a projection. */
  char *gates, *cell, *tanh_cell, *unprojected;
} tlk_RnnLayer;

/* Where the rows of step t begin, and how many there are. */
static inline int64_t tlk_rnn_first(const tlk_Rnn *r, int64_t t) {
  return r->offsets ? r->offsets[t] : t * r->batch;
}
static inline int64_t tlk_rnn_count(const tlk_Rnn *r, int64_t t) {
  return r->offsets ? r->offsets[t + 1] - r->offsets[t] : r->batch;
}

/* One step of the samples up to `end`, as the layer goes: those up to `joins` come from
** another step, the others begin here; those up to `stays` go on, for the others this
** is the last one. */
typedef struct tlk_RnnStep {
  int64_t end;
  int64_t first, before; /* the rows of sample 0, here and where it comes from */
  int64_t joins, stays;
} tlk_RnnStep;
tlk_RnnStep tlk_rnn_step(const tlk_Rnn *r, int64_t t, int64_t end);

/* The layer with its memory in `reserve`, or without memory where that is NULL. */
tlk_RnnLayer tlk_rnn_layer(const tlk_Rnn *rnn, void *reserve);

/* Calls fn for samples from 0 to batch, each thread for some of them where that pays
** and there are enough; else fn is called once and may share out its own work. */
bool tlk_rnn_share(const tlk_Rnn *r, void (*fn)(void *context, int64_t begin, int64_t end),
                   void *context);

/* As tlk_packed_product of all panels, shared among threads where samples are not. */
void tlk_rnn_multiply(const tlk_Packed *matrix, int64_t rows, const void *a, int64_t a_step,
                      bool add, void *c, int64_t c_step);

/* An array that may be of a half type, and what stands in for it. */
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

/* The array in the type that is computed in; NULL for NULL, or after a failure. */
const void *tlk_rnn_operand(tlk_RnnArrays *a, const void *data, int64_t n);
void *tlk_rnn_result(tlk_RnnArrays *a, void *data, int64_t n);
/* The weights and biases, too; the result's dtype is the computed one. */
tlk_Rnn tlk_rnn_weights(tlk_RnnArrays *a, const tlk_Rnn *rnn);
/* Writes the results back if `ok`, and frees. */
void tlk_rnn_arrays_end(tlk_RnnArrays *a, bool ok);

#endif
