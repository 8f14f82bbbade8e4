/*
** cudnn_rnn.h - the interface between cudnn.c, which receives the calls, and cudnn_math.c, which
** does the computation.
*/
#ifndef TLK_EMULATED_CUDNN_RNN_H
#define TLK_EMULATED_CUDNN_RNN_H

#include <cudnn.h>
#include <stdbool.h>

typedef struct RnnShape {
  cudnnRNNMode_t mode;
  cudnnDataType_t type;
  int gates;
  bool tf32, biases;
  int input, hidden, output; /* sizes of the layer; it has a projection if output < hidden */
} RnnShape;

/* Returns the size of the weight space, and sets *matrix and *bias to the offsets of linear
** layer `id` in the weight space. */
size_t rnn_params(const RnnShape *s, int id, size_t *matrix, size_t *bias);
/* Returns the size of a record, which is the part of the reserve for one step of one sample, in
** numbers. */
size_t rnn_record(const RnnShape *s);

/* The arguments of one pass of a layer. The fields have the names of cuDNN's arguments. */
typedef struct RnnJob {
  RnnShape shape;
  int steps, batch;
  void *weights; /* in the pass that computes weight gradients: the gradients of the weights */
  void *work;
  size_t work_bytes;
  void *reserve; /* the reserve, or NULL if there is none */
  const void *x, *y, *dy, *hx, *cx, *dhy, *dcy;
  void *y_out, *hy, *cy, *dx, *dhx, *dcx;
} RnnJob;

void rnn_forward(void *job);
void rnn_backward_data(void *job);
void rnn_backward_weights(void *job);

#endif
