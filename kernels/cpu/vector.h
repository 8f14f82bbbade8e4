/*
** vector.h - the number and size of the vector registers, for files in folders named isa, which are
** compiled once for each instruction set. Loops choose the sizes of their tiles by these two
** numbers, so a new instruction set needs no change in the loops.
*/
#ifndef TLK_VECTOR_H
#define TLK_VECTOR_H

#if defined(TLK_PORTABLE) /* the portable set, whose vectors have the same size on all machines */
#define TLK_VECTOR_BYTES 16
#define TLK_VECTOR_REGISTERS 16
#elif defined(__AVX512F__)
#define TLK_VECTOR_BYTES 64
#define TLK_VECTOR_REGISTERS 32
#elif defined(__AVX__)
#define TLK_VECTOR_BYTES 32
#define TLK_VECTOR_REGISTERS 16
#elif defined(__aarch64__)
#define TLK_VECTOR_BYTES 16
#define TLK_VECTOR_REGISTERS 32
#else
#define TLK_VECTOR_BYTES 16
#define TLK_VECTOR_REGISTERS 16
#endif

#endif
