/*
** csv.h - rows of text, as RFC 4180 has them, into columns: fields between delimiters,
** which may be quoted; quotes in those are doubled. Rows end with \n or \r\n; empty
** lines are passed over.
*/
#ifndef TLI_CSV_H
#define TLI_CSV_H

#include "core/error.h"

/* What a column is read into, beside dtypes. */
enum { TLI_CSV_SKIP = -1, TLI_CSV_TEXT = -2 };

/* A field's bytes. */
typedef struct tli_CsvText {
  int64_t first;  /* from 0 */
  int64_t length; /* if negative, ~length bytes with doubled quotes in them */
} tli_CsvText;

typedef struct tli_CsvColumn {
  int type;   /* tl_DType, or one of the above */
  void *data; /* room for `rows` elements, of TLI_CSV_TEXT for so many tli_CsvText */
} tli_CsvColumn;

typedef struct tli_Csv {
  const char *data;
  int64_t bytes;
  char delimiter, quote;
  int columns;
  const tli_CsvColumn *column;
  int64_t at;   /* where the next row begins; moves on */
  int64_t line; /* its line, from 1; moves on */
} tli_Csv;

/* Reads up to `rows` rows; their number, fewer only at the end of the data, or -1 with
** TL_EIO: a row of other than `columns` fields, or a field that is no number of its
** column's dtype. Those are decimal numbers of C's, or of a float nan and inf in any case;
** an empty field is a float's nan, and of bool true, false, 1 and 0. Floats are rounded to
** the nearest double first. */
int64_t tli_csv_read(tli_Csv *csv, int64_t rows) TL_MUSTCHECK;

/* How many fields the row at csv->at has, which stays there; 0 at the end, -1 as above. */
int64_t tli_csv_fields(const tli_Csv *csv) TL_MUSTCHECK;

#endif
