/*
** file.h - the form of programs in safetensors files, whose metadata describes the graph as plain
** data. file_write.c writes it, and file_read.c reads it.
**
**   {"__metadata__": {"format": "tlua.program", "program": "<JSON>"},
**    "layer.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, ...}
**
** The program is {"version", "inputs": [[name, dtype, [size or symbol, ...]], ...], "symbols":
** [[name, example, least, most], ...], "constants": [name, ...], "numbers": [number, ...], "calls":
** [[operator, [argument, ...], results], ...], "outputs": [value, ...], "holes": [[call or null,
** parameter, element or null, base, [factor, ...]], ...], "training", "dtype", "structure"}. Values
** are numbered: inputs, constants, numbers, then the results of the calls in their order. An
** argument is a value's number, a list of them, or plain data by the parameter's kind; null stands
** for an absent argument.
**
** Version 2 is a program that changes its constants. It also has the field "state": [index of a
** constant, ...]. If the program is a training step, it also has "leaves": [index, ...], "random":
** [seed, offset], and "schedule": null or [index of the rates, index of the step count, [[call,
** parameter, element], ...]]. A call during which gradients are recorded has `true` as its fourth
** element.
**
** Version 3 is a program with integers that depend on products of sizes: a hole may have a sixth
** element, [[factor, [symbol, ...]], ...]. Version 3 may have all fields of version 2.
**
** Each tensor's data begins at a multiple of 64 bytes. The safetensors format allows no gaps, so
** entries named "__padding__.1" and so on fill the bytes between the tensors.
**
** The reader does not trust a file. It checks the conditions that call_graph.h states, that tensors
** lie within the file, and that required arguments are present. The operators check everything
** else, as they do for any caller.
*/
#ifndef TLI_GRAPH_FILE_H
#define TLI_GRAPH_FILE_H

#include "core/tensor/tensor.h"

/* The versions of the file format, described above. */
enum { TLI_FILE_PLAIN = 1, TLI_FILE_WITH_STATE = 2, TLI_FILE_WITH_PRODUCTS = 3 };
#define TLI_FILE_ALIGNMENT 64
#define TLI_FILE_HEADER_MAX \
  ((uint64_t)100000000) /* the largest header that the format allows, in bytes */

/* Returns the format's name of a dtype, such as "F32"; the name is written to `out`. */
const char *tli_file_code(tl_DType dtype, char out[16]);

#endif
