/*
** cudnn_rnn.h - what cudnn.c, which takes the calls, has cudnn_math.c compute.
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
  int input, hidden, output; /* output below hidden: there is a projection */
} RnnShape;

/* Where the matrix and the bias of a linear layer are in the weight space; its bytes. */
size_t rnn_params(const RnnShape *s, int id, size_t *matrix, size_t *bias);
/* Numbers that the reserve has for each step of each sample, behind a first one. */
size_t rnn_record(const RnnShape *s);

/* A pass; the names are those of cuDNN's arguments. */
typedef struct RnnJob {
  RnnShape shape;
  int steps, batch;
  void *weights; /* their gradients, where those are what is computed */
  void *work;
  size_t work_bytes;
  void *reserve; /* NULL: none */
  const void *x, *y, *dy, *hx, *cx, *dhy, *dcy;
  void *y_out, *hy, *cy, *dx, *dhx, *dcx;
} RnnJob;

void rnn_forward(void *job);
void rnn_backward_data(void *job);
void rnn_backward_weights(void *job);

#endif
