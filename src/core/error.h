/*
** error.h - failures travel as NULL or false; the kind and one message wait
** in thread-local state until a binding turns them into its own form.
*/
#ifndef TLI_ERROR_H
#define TLI_ERROR_H

#include <inttypes.h>

#include "tlua.h"

/* A position (dimension or index) inside a message: the engine counts from 0;
** a binding that counts from 1 finds the mark and translates. Negative
** numbers count from the end for both. Used as
**   tli_fail(TL_EINDEX, "select: index " TLI_POS " is out of range", i) */
#define TLI_POS_BEGIN '\1'
#define TLI_POS_END '\2'
#define TLI_POS "\1%" PRId64 "\2"

/* printf's formats as C has them: Windows' own printf knows others. */
#ifdef _WIN32
#define TLI_PRINTF gnu_printf
#else
#define TLI_PRINTF printf
#endif

/* Records a failure and returns false. Never call it with a user's text as
** the format. */
bool tli_fail(tl_ErrorKind kind, const char *format, ...) __attribute__((format(TLI_PRINTF, 2, 3)));
/* The same for functions that return a pointer. */
void *tli_fail_null(tl_ErrorKind kind, const char *format, ...)
    __attribute__((format(TLI_PRINTF, 2, 3)));

/* A failure about positions or their dtype is one about `what`, such as "one_hot: self", in
** place of the inner operator and argument it names. Returns false. */
bool tli_fail_about(const char *what);
/* The length of "name: " in front of a message, or 0. */
size_t tli_error_head(const char *message);

/* The message with its position marks, for bindings. */
const char *tli_error_raw(void);
/* Tells failures of a thread apart: how many there were. */
uint64_t tli_error_number(void);
/* Writes `raw` with each marked position translated: +base if not negative. */
void tli_error_translate(const char *raw, int base, char *out, size_t size);

/* The last failure is that of an earlier call, which its message names. */
void tli_error_set_late(void);
bool tli_error_late(void);

void tli_error_clear(void);

/* Our own mistakes, checked in debug and sanitizer builds only. */
#ifdef TLI_DEBUG
#define TL_ASSERT(c) ((c) ? (void)0 : __builtin_trap())
#else
#define TL_ASSERT(c) ((void)0)
#endif

/* Passes a failure of a call on. */
#define TL_TRY(call)           \
  do {                         \
    if (!(call)) return false; \
  } while (0)

#define TL_TRY_NULL(call)     \
  do {                        \
    if (!(call)) return NULL; \
  } while (0)

#endif
