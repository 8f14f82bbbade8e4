/*
** vector.h - the vector registers of the instruction set that a file in a folder isa is compiled
** for. Loops choose the sizes of their tiles by the registers' number and size, so a new
** instruction set needs no change in the loops.
*/
#ifndef TLK_VECTOR_H
#define TLK_VECTOR_H

#if defined(__AVX512F__)
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
