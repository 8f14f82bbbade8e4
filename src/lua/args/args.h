/*
** args.h - reading the arguments of an operator from the Lua stack. Generated
** functions declare a signature and ask for one parameter after the other;
** what goes wrong first is kept, and nothing raises before tli_args_end, except
** that lists may raise for lack of memory: they are read before operands.
**
** Arguments come by position; a trailing table with string keys gives the
** rest, or any of them, by name. A parameter marked `vararg` also takes its
** list as separate numbers: x:view(3, 4) as x:view({3, 4}).
*/
#ifndef TLI_ARGS_H
#define TLI_ARGS_H

#include "lua/state.h"

#define TLI_MAX_PARAMS 24
#define TLI_POOL 48
#define TLI_MAX_TEMPS 4

typedef enum tli_Kind {
  TLI_A_TENSOR,
  TLI_A_OPERAND,
  TLI_A_TENSORS,
  TLI_A_NUMBER,
  TLI_A_INT,
  TLI_A_DIM,
  TLI_A_INDEX,
  TLI_A_BOOL,
  TLI_A_TRUE, /* of one form: that option set */
  TLI_A_FLOAT,
  TLI_A_FLOATS,
  TLI_A_INTS,
  TLI_A_DIMS,
  TLI_A_DIM_LISTS,
  TLI_A_INDICES,
  TLI_A_STRING,
  TLI_A_DTYPE,
  TLI_A_DEVICE,
  TLI_A_GENERATOR
} tli_Kind;

/* TLI_P_ANY_DEVICE: a tensor that need not be where the others are. */
enum { TLI_P_OPTIONAL = 1, TLI_P_KEYWORD = 2, TLI_P_VARARG = 4, TLI_P_ANY_DEVICE = 8 };

typedef struct tli_Param {
  const char *name;
  uint8_t kind; /* tli_Kind */
  uint8_t flags;
  uint8_t expand; /* int[n]: one number stands for n; 0 otherwise */
} tli_Param;

typedef struct tli_Signature {
  const char *name; /* as the user knows it, "add" or "linalg.norm" */
  const char *text; /* the form shown in messages and by help */
  const tli_Param *params;
  int nparams;
} tli_Signature;

typedef struct tli_Args {
  lua_State *L, *outer; /* the running thread, and that of the call around this one */
  tli_State *S;
  const tli_Signature *signature;
  bool failed;
  int8_t first;       /* parameter of the first tensor read, whose device holds for all; -1: none */
  int64_t first_item; /* its place, from 1, if that is a list; else 0 */
  bool first_is_single; /* it is a 0-d tensor of the CPU */
  tl_Device device;
  int ntemps;
  int nlist; /* how many stack values a vararg list takes */
  int npool;
  int at[TLI_MAX_PARAMS];          /* stack index, 0: not given */
  int8_t type[TLI_MAX_PARAMS];     /* Lua's type of what was given */
  tl_Tensor *temps[TLI_MAX_TEMPS]; /* owned: numbers made tensors */
  int64_t pool[TLI_POOL];          /* elements of short lists */
  struct tli_Room *rooms;          /* owned: long lists */
} tli_Args;

/* Matches the stack against the signature. Never raises but for lack of
** memory. */
void tli_args_begin(tli_Args *a, lua_State *L, const tli_Signature *signature);

/* Whether parameter i was given (and not nil). */
static inline bool tli_args_given(const tli_Args *a, int i) { return a->at[i] != 0; }

/* Each returns parameter i, its "not given" value, or after a failure
** anything. Tensors are borrowed. */
tl_Tensor *tli_arg_tensor(tli_Args *a, int i);
tl_Tensor *tli_arg_operand(tli_Args *a, int i); /* a number becomes a temporary */
tl_Tensors tli_arg_tensors(tli_Args *a, int i);
tl_Scalar tli_arg_number(tli_Args *a, int i, tl_Scalar otherwise);
int64_t tli_arg_int(tli_Args *a, int i, int64_t otherwise);
int64_t tli_arg_dim(tli_Args *a, int i, int64_t otherwise);   /* to C's counting */
int64_t tli_arg_index(tli_Args *a, int i, int64_t otherwise); /* to C's counting */
bool tli_arg_bool(tli_Args *a, int i, bool otherwise);
double tli_arg_float(tli_Args *a, int i, double otherwise);
tl_Floats tli_arg_floats(tli_Args *a, int i, tl_Floats otherwise);
tl_Ints tli_arg_ints(tli_Args *a, int i, tl_Ints otherwise);
tl_Ints tli_arg_dims(tli_Args *a, int i, tl_Ints otherwise);
tl_Ints tli_arg_dim_lists(tli_Args *a, int i, tl_Ints otherwise); /* one after the other */
tl_Ints tli_arg_indices(tli_Args *a, int i, tl_Ints otherwise);
const char *tli_arg_string(tli_Args *a, int i, const char *otherwise);
tl_DType tli_arg_dtype(tli_Args *a, int i, tl_DType otherwise);
tl_Device tli_arg_device(tli_Args *a, int i, tl_Device otherwise);
tli_Generator *tli_arg_generator(tli_Args *a, int i);

/* Records that parameter i is not what was expected. */
void tli_args_fail(tli_Args *a, int i, const char *expected);

/* After the operator has failed: whether to call it once more, since memory
** was short and a collection may have given some back. */
bool tli_args_retry(tli_Args *a);

/* Room for n 8-byte elements until the end; NULL and a failure on lack of memory. */
void *tli_args_room(tli_Args *a, int64_t n);

/* The same for n tensors, at first NULL, which are owned until then. */
tl_Tensor **tli_args_owned(tli_Args *a, int64_t n);

/* Releases temporaries. To be called before anything is pushed or raised. */
void tli_args_end(tli_Args *a);

/* Raises the failure in the name of the function that was called, which may
** be a composition of the one that failed. */
int tli_args_raise(tli_Args *a);
int tli_raise_call(lua_State *L, const tli_Signature *sig);

/* ---- what is shared with operators of several forms (overload.c) ---- */

/* What the last argument is: a table with string keys only holds options; an
** empty table is a list of no elements where a list is expected, else options
** of which none is set. */
typedef enum tli_Last { TLI_LAST_VALUE, TLI_LAST_EMPTY, TLI_LAST_OPTIONS } tli_Last;
tli_Last tli_last_argument(lua_State *L, int top);
static inline bool tli_takes_list(const tli_Param *p) {
  if (!(p->flags & TLI_P_OPTIONAL)) return true; /* torch.tensor({}) */
  return p->kind == TLI_A_FLOATS || p->kind == TLI_A_INTS || p->kind == TLI_A_DIMS ||
         p->kind == TLI_A_INDICES || p->kind == TLI_A_TENSORS;
}
/* Whether an argument of that type is one of a list given as separate arguments. */
static inline bool tli_begins_list(const tli_Param *p, int type) {
  return (p->flags & TLI_P_VARARG) &&
         type == (p->kind == TLI_A_TENSORS ? LUA_TUSERDATA : LUA_TNUMBER);
}
/* The parameter of that name, -1 if there is none. */
int tli_find_param(const tli_Signature *sig, const char *name);

typedef struct tli_Form {
  const tli_Signature *signature;
  lua_CFunction fn;
} tli_Form;
/* Calls the first form that the arguments could be meant for; raises if none
** fits. */
int tli_call_form(lua_State *L, const tli_Form *forms, int n);

/* Names what stands at a stack index, for messages: "Tensor[2, 3] float32",
** "string 'x'", "nil". In a thread-local buffer. */
const char *tli_describe(lua_State *L, const tli_State *S, int index);

/* Pushing results. */
int tli_push_scalar(lua_State *L, tl_Scalar s);
int tli_push_ints(lua_State *L, tl_Ints ints);

/* Reads a whole number from the stack: integers, and floats without fraction.
** False for anything else. */
bool tli_to_whole(lua_State *L, int index, int64_t *out);
/* A position counted from 1 or from the end, to C's counting; 0 is refused. */
bool tli_to_position(lua_State *L, int index, int64_t *out);
/* A Lua number or boolean. */
bool tli_to_scalar(lua_State *L, int index, tl_Scalar *out);
/* A string without a byte 0 in it, borrowed from the stack; NULL for all else. */
const char *tli_to_word(lua_State *L, int index);
tl_DType tli_to_dtype(lua_State *L, int index);
bool tli_to_device(lua_State *L, int index, tl_Device *out);
/* The text of a string or of a torch.device; NULL for all else (devices/device_value.c). */
const char *tli_to_device_name(lua_State *L, int index);
/* Pushes the state's torch.device of a device; nil for TLI_NODEVICE. */
int tli_push_device(lua_State *L, tl_Device device);
tli_Generator *tli_to_generator(lua_State *L, int index);
/* The device of the generator at an index. */
tl_Device tli_generator_device(lua_State *L, int index);

/* Generated: every function the table gives to Lua. */
typedef struct tli_Binding {
  const char *name;
  const char *module; /* NULL: torch itself */
  lua_CFunction fn;
  bool method, function;
} tli_Binding;

#endif
