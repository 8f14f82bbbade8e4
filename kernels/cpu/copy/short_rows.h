/*
** short_rows.h - copies and fills many short rows, such as the rows of a tensor (n, 3). A call of
** memcpy for each row would take longer than the copies themselves.
*/
#ifndef TLK_SHORT_ROWS_H
#define TLK_SHORT_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* Moves `rows` rows of `bytes` bytes. The rows of dst are contiguous and ds bytes apart, those of
** src ss bytes apart. The elements, of 1 << log2_size bytes, are `step` bytes apart in src. Returns
** false, and does nothing, if the rows are not short or are neither contiguous nor a single element
** in src. */
bool tlk_move_short_rows(char *dst, int64_t ds, const char *src, int64_t step, int64_t ss,
                         int64_t bytes, int64_t rows, int log2_size);

#endif
