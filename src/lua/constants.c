/*
** constants.c - names for values: torch.float32, torch.long, torch.pi. A dtype is a string, its
** name, so torch.float32 == "float32" == x.dtype.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua/tensor/value.h"

/* PyTorch's other names for dtypes, such as "long" for "int64". */
static const struct {
  const char *name;
  tl_DType dtype;
} aliases[] = {{"float", TL_F32}, {"double", TL_F64}, {"half", TL_F16},   {"short", TL_I16},
               {"int", TL_I32},   {"long", TL_I64},   {"cfloat", TL_C64}, {"cdouble", TL_C128},
#ifndef TLI_INFER
               {"chalf", TL_C32}
#endif
};

static const struct {
  const char *name;
  double value;
} numbers[] = {
    {"inf", INFINITY}, {"nan", NAN}, {"pi", 3.14159265358979323846}, {"e", 2.71828182845904523536}};

const char *tli_dtype_hint(const char *word) {
  static _Thread_local char text[200];
  tli_Suggestion best = TLI_SUGGESTION(word);
  for (int d = 0; d < TL_NDTYPES; d++) tli_suggestion_try(&best, tl_dtype_name((tl_DType)d));
  if (best.name) return tli_suggestion_text(&best, text, sizeof text);
  snprintf(text, sizeof text, "; the dtypes are ");
  for (int d = 0; d < TL_NDTYPES; d++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s", d ? ", " : "", tl_dtype_name((tl_DType)d));
  }
  return text;
}

static void set_word(lua_State *L, const char *name, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, name);
}

void tli_open_constants(lua_State *L) {
  for (int d = 0; d < TL_NDTYPES; d++)
    set_word(L, tl_dtype_name((tl_DType)d), tl_dtype_name((tl_DType)d));
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    set_word(L, aliases[i].name, tl_dtype_name(aliases[i].dtype));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    lua_pushnumber(L, numbers[i].value);
    lua_setfield(L, -2, numbers[i].name);
  }
  static const char *const words[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                      "sparse_bsr", "sparse_bsc", "jagged",     "qint8",
                                      "quint8",     "qint32"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) set_word(L, words[i], words[i]);
  set_word(L, "__version__", tl_version());
}
