/*
** csv.h - reads rows of text (RFC 4180) into columns. Fields are separated by delimiters and may be
** quoted. A quote character inside a quoted field is doubled. Rows end with \n or \r\n. Empty lines
** are skipped.
*/
#ifndef TLI_CSV_H
#define TLI_CSV_H

#include "core/error.h"

/* Types of columns whose fields are not converted to a dtype: columns that are skipped, and columns
** of text. */
enum { TLI_CSV_SKIP = -1, TLI_CSV_TEXT = -2 };

/* The position of a text field in the file's bytes. */
typedef struct tli_CsvText {
  int64_t first; /* from 0 */
  /* length in bytes; if the field contains doubled quotes, its bitwise complement ~length */
  int64_t length;
} tli_CsvText;

typedef struct tli_CsvColumn {
  int type; /* the column's type: a tl_DType, TLI_CSV_SKIP or TLI_CSV_TEXT */
  /* array of `rows` elements of the dtype, or of tli_CsvText if the type is TLI_CSV_TEXT */
  void *data;
} tli_CsvColumn;

typedef struct tli_Csv {
  const char *data;
  int64_t bytes;
  char delimiter, quote;
  int columns;
  const tli_CsvColumn *column;
  int64_t at;   /* offset of the next row; reading advances it */
  int64_t line; /* line number of the next row, from 1; reading advances it */
} tli_Csv;

/* Reads up to `rows` rows. Returns their number, which is less than `rows` only at the end of the
** data. Returns -1 with TL_EIO for a row whose number of fields differs from `columns`, or for a
** field that the dtype of its column cannot hold. Numbers are decimal as in C. Floats may also be
** nan and inf in upper or lower case, and an empty field is nan. Bools are true, false, 1 and 0.
** Floats are first rounded to the nearest double. */
int64_t tli_csv_read(tli_Csv *csv, int64_t rows) TL_MUSTCHECK;

/* Returns the number of fields of the row at csv->at, without advancing; 0 at the end, -1 on
** errors. */
int64_t tli_csv_fields(const tli_Csv *csv) TL_MUSTCHECK;

#endif
