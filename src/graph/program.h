/*
** program.h - running a graph. A program may be run by several threads at once: each run has a
** context of its own, which holds its values and its memory plan. Later runs reuse the contexts of
** earlier runs.
*/
#ifndef TLI_GRAPH_PROGRAM_H
#define TLI_GRAPH_PROGRAM_H

#include "graph/call_graph.h"
#include "graph/text.h"

/* Returns a program that shares the graph; on failure returns NULL and sets a message. */
tl_Program *tli_program_new(tli_Graph *g) TL_MUSTCHECK;
const tli_Graph *tli_program_graph(const tl_Program *p);

/* Runs a program as tl_program_run does. Draws random numbers from `generator` unless it is NULL.
** If `most` is not NULL, the loops of the run make at most *most iterations, and *most is reduced
** by the iterations that were made. */
bool tli_program_run(tl_Program *p, tli_Generator *generator, int64_t *most,
                     tl_Tensor *const *inputs, int ninputs, tl_Tensor **outputs, int noutputs)
    TL_MUSTCHECK;
tl_ProgramLimits tli_program_limits(tl_Program *p);

/* Changes a number in a list of reals of the program, such as a learning rate. */
bool tli_program_set_real(tl_Program *p, const tli_GraphPlace *at, double value) TL_MUSTCHECK;

/* Saves a program as tl_program_save does. If `generator` is not NULL, the saved program continues
** that generator's sequence of random numbers. */
bool tli_program_save(tl_Program *p, const tli_Generator *generator, const char *path) TL_MUSTCHECK;

typedef struct tli_ProgramMemory {
  int64_t arena; /* size of one context's arena in bytes; 0 before the first run */
  int64_t live;  /* the largest number of bytes that were in use at once */
  int contexts;
} tli_ProgramMemory;
tli_ProgramMemory tli_program_memory(tl_Program *p);

/* Writes a program as text for people to read; implemented in show.c. */
void tli_program_show(tl_Program *p, tli_Text *out);

#endif
