/*
** error.h - how functions report failures. A function that fails returns NULL or false, and leaves
** a kind and one message in thread-local state. A binding converts them to errors of its language.
*/
#ifndef TLI_ERROR_H
#define TLI_ERROR_H

#include <inttypes.h>

#include "tlua.h"

/* A mark for a position (a dimension or an index) in a message. The engine counts positions from 0;
** a binding that counts from 1 finds the mark and translates the number. Negative numbers count
** from the end in either case, and stay unchanged. Example:
**   tli_fail(TL_EINDEX, "select: index " TLI_POS " is out of range", i) */
#define TLI_POS_BEGIN '\1'
#define TLI_POS_END '\2'
#define TLI_POS "\1%" PRId64 "\2"

/* GCC checks format strings by the rules of C's printf; the rules of Windows differ. */
#ifdef _WIN32
#define TLI_PRINTF gnu_printf
#else
#define TLI_PRINTF printf
#endif

/* Records a failure and returns false. Never pass a user's text as the format. */
bool tli_fail(tl_ErrorKind kind, const char *format, ...) __attribute__((format(TLI_PRINTF, 2, 3)));
/* Reports an error as tli_fail does and returns NULL, for functions that return a pointer. */
void *tli_fail_null(tl_ErrorKind kind, const char *format, ...)
    __attribute__((format(TLI_PRINTF, 2, 3)));

/* Changes the message of a failure about positions or dtypes, so that it names `what`, such as
** "one_hot: self", instead of an inner operator and its argument. Returns false. */
bool tli_fail_about(const char *what);
/* Returns the length of the message's prefix "name: ", or 0. */
size_t tli_error_head(const char *message);

/* Returns the last message with its position marks still in it, for bindings. */
const char *tli_error_raw(void);
/* Returns the number of failures in this thread so far. If the number is unchanged, no call has
** failed since. */
uint64_t tli_error_number(void);
/* Copies the message `raw` to `out`, and adds `base` to each marked position that is not
** negative. */
void tli_error_translate(const char *raw, int base, char *out, size_t size);

/* Marks the last failure as the failure of an earlier call, which its message names. */
void tli_error_set_late(void);
bool tli_error_late(void);

void tli_error_clear(void);

/* Checks a condition that only a programming error can violate. The check is active in debug and
** sanitizer builds only. */
#ifdef TLI_DEBUG
#define TL_ASSERT(c) ((c) ? (void)0 : __builtin_trap())
#else
#define TL_ASSERT(c) ((void)0)
#endif

/* If the call fails, returns false from the enclosing function. */
#define TL_TRY(call)           \
  do {                         \
    if (!(call)) return false; \
  } while (0)

#define TL_TRY_NULL(call)     \
  do {                        \
    if (!(call)) return NULL; \
  } while (0)

#endif
