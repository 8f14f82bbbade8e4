/*
** vector.h - the number and size of the vector registers and the choice of elements from vectors,
** for files in folders named isa, which are compiled once for each instruction set. Loops choose
** the sizes of their tiles by these two numbers, so a new instruction set needs no change in the
** loops.
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

/* TLK_SHUFFLE(Positions, a, b, ...) is a vector of the elements with these positions in the
** concatenation of the vectors a and b. The result has as many elements as a. Positions is the type
** of a vector of as many integers of the same size, which gcc needs before version 12. */
#if defined(__clang__) || __GNUC__ >= 12
#define TLK_SHUFFLE(Positions, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TLK_SHUFFLE(Positions, a, b, ...) __builtin_shuffle(a, b, (Positions){__VA_ARGS__})
#endif

#endif
