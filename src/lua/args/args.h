/*
** args.h - reads the arguments of an operator from the Lua stack. Generated functions declare a
** signature and read one parameter after another. The first failure is recorded, and its error is
** raised after tli_args_end. An error is raised earlier only if Lua's own memory is exhausted.
** Operands are read last, because a number as operand becomes a tensor, which such an error would
** leak.
**
** Arguments are positional; a trailing table with string keys contains options, which name the
** remaining parameters or all of them. A parameter marked `vararg` also takes its list as separate
** arguments: x:view(3, 4) means x:view({3, 4}).
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
  TLI_A_TRUE, /* an option that must be `true`, and that selects one form of the operator */
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

/* Flags of parameters. TLI_P_ANY_DEVICE means that the tensor need not be on the device of the
** first tensor. */
enum { TLI_P_OPTIONAL = 1, TLI_P_KEYWORD = 2, TLI_P_VARARG = 4, TLI_P_ANY_DEVICE = 8 };

typedef struct tli_Param {
  const char *name;
  uint8_t kind; /* a tli_Kind */
  uint8_t flags;
  /* for a parameter that is a list of n integers: n if one number may stand for n equal integers,
  ** otherwise 0 */
  uint8_t expand;
} tli_Param;

typedef struct tli_Signature {
  const char *name; /* the public name, such as "add" or "linalg.norm" */
  const char *text; /* the usage text, which error messages and help show */
  const tli_Param *params;
  int nparams;
  /* whether each element of the result depends on only one element of each tensor */
  bool pointwise;
  bool stored; /* whether the operator takes the dtypes of TL_STORED_DTYPES */
} tli_Signature;

typedef struct tli_Args {
  /* the Lua thread that runs the operator, and the thread of the enclosing call */
  lua_State *L, *outer;
  tli_State *S;
  const tli_Signature *signature;
  int top; /* number of Lua arguments of the call */
  bool failed;
  bool refused; /* whether an argument was refused because its dtype is one of TL_STORED_DTYPES */
  /* index of the parameter with the first tensor, whose device all tensors must have; -1 if there
  ** is none */
  int8_t first;
  /* position of the first tensor in its list, from 1; 0 if that tensor is not in a list */
  int64_t first_item;
  /* whether the first tensor is a 0-d CPU tensor, which may be combined with tensors on other
  ** devices */
  bool first_is_single;
  tl_Device device;
  int ntemps;
  int nlist; /* number of separate arguments that form the vararg list */
  int npool;
  int at[TLI_MAX_PARAMS];      /* stack index of each parameter's argument; 0 if it was not given */
  int8_t type[TLI_MAX_PARAMS]; /* Lua type of each parameter's argument */
  tl_Tensor *temps[TLI_MAX_TEMPS]; /* tensors made from numbers (owned) */
  int64_t pool[TLI_POOL];          /* elements of short lists */
  struct tli_Room *rooms;          /* memory of long lists (owned) */
  /* the generator among the arguments, or NULL, and its position before the call */
  tli_Generator *generator;
  uint64_t position;
} tli_Args;

/* Assigns the arguments on the stack to the signature's parameters. Raises an error only if memory
** is exhausted. */
void tli_args_begin(tli_Args *a, lua_State *L, const tli_Signature *signature);

/* Returns whether parameter i was given (and not nil). */
static inline bool tli_args_given(const tli_Args *a, int i) { return a->at[i] != 0; }

/* Each function below returns the value of parameter i, or `otherwise` if the argument was not
** given. After a failure the returned value is meaningless. Tensors are borrowed. */
tl_Tensor *tli_arg_tensor(tli_Args *a, int i);
/* Returns a tensor argument. A number as argument is converted to a temporary tensor. */
tl_Tensor *tli_arg_operand(tli_Args *a, int i);
tl_Tensors tli_arg_tensors(tli_Args *a, int i);
tl_Scalar tli_arg_number(tli_Args *a, int i, tl_Scalar otherwise);
int64_t tli_arg_int(tli_Args *a, int i, int64_t otherwise);
/* Reads a dimension, which counts from 1 or from the end, and converts it to count from 0. */
int64_t tli_arg_dim(tli_Args *a, int i, int64_t otherwise);
/* Reads a position, which counts from 1 or from the end, and converts the position to count from
** 0. */
int64_t tli_arg_index(tli_Args *a, int i, int64_t otherwise);
bool tli_arg_bool(tli_Args *a, int i, bool otherwise);
double tli_arg_float(tli_Args *a, int i, double otherwise);
tl_Floats tli_arg_floats(tli_Args *a, int i, tl_Floats otherwise);
tl_Ints tli_arg_ints(tli_Args *a, int i, tl_Ints otherwise);
tl_Ints tli_arg_dims(tli_Args *a, int i, tl_Ints otherwise);
tl_Ints tli_arg_dim_lists(tli_Args *a, int i, tl_Ints otherwise); /* concatenated */
tl_Ints tli_arg_indices(tli_Args *a, int i, tl_Ints otherwise);
const char *tli_arg_string(tli_Args *a, int i, const char *otherwise);
tl_DType tli_arg_dtype(tli_Args *a, int i, tl_DType otherwise);
tl_Device tli_arg_device(tli_Args *a, int i, tl_Device otherwise);
tli_Generator *tli_arg_generator(tli_Args *a, int i);

/* Records the error that the argument of parameter i is not what was expected. */
void tli_args_fail(tli_Args *a, int i, const char *expected);

/* Prepares another attempt after an operator has failed. If memory was exhausted, collects garbage,
** resets the generator to its position before the call, and returns true; the caller then calls the
** operator again. After any other failure returns false. */
bool tli_args_retry(tli_Args *a);

/* Allocates n 8-byte elements that live until tli_args_end. If memory is exhausted, records a
** failure and returns NULL. */
void *tli_args_room(tli_Args *a, int64_t n);

/* Returns an array of n tensor pointers, all NULL at first; tli_args_end releases the tensors that
** the caller has put into the array. */
tl_Tensor **tli_args_owned(tli_Args *a, int64_t n);

/* Releases temporary tensors and lists. Must be called before a result is pushed or an error is
** raised. */
void tli_args_end(tli_Args *a);

/* Raises the recorded failure. The message names the function that the user has called, even if
** that function called the operator that failed. If an argument is a sparse, masked or nested
** tensor, or has a dtype of TL_STORED_DTYPES, calls the handler of such tensors (sparse.h,
** stored.h) instead, and returns the handler's results. */
int tli_args_raise(tli_Args *a);
int tli_raise_call(lua_State *L, const tli_Signature *sig);

/* ---- shared with operators of several forms (overload.c) ---- */

/* The role of the last argument: a value, an empty table, or a table of options, which has only
** string keys. An empty table means an empty list if the parameter takes a list; otherwise the
** table means options without a key. */
typedef enum tli_Last { TLI_LAST_VALUE, TLI_LAST_EMPTY, TLI_LAST_OPTIONS } tli_Last;
tli_Last tli_last_argument(lua_State *L, int top);
static inline bool tli_takes_list(const tli_Param *p) {
  /* for a required parameter {} is the value, as in torch.tensor({}) */
  if (!(p->flags & TLI_P_OPTIONAL)) return true;
  return p->kind == TLI_A_FLOATS || p->kind == TLI_A_INTS || p->kind == TLI_A_DIMS ||
         p->kind == TLI_A_INDICES || p->kind == TLI_A_TENSORS;
}
/* Returns whether an argument of the given Lua type is the first element of a list that is passed
** as separate arguments. */
static inline bool tli_begins_list(const tli_Param *p, int type) {
  return (p->flags & TLI_P_VARARG) &&
         type == (p->kind == TLI_A_TENSORS ? LUA_TUSERDATA : LUA_TNUMBER);
}
/* Returns the index of the parameter with the given name; -1 if there is none. */
int tli_find_param(const tli_Signature *sig, const char *name);

typedef struct tli_Overload {
  const tli_Signature *signature;
  lua_CFunction fn;
} tli_Overload;
/* Calls the first form that fits the arguments; raises an error if none fits. */
int tli_call_overload(lua_State *L, const tli_Overload *forms, int n);

/* Describes the value at a stack index for messages: "Tensor[2, 3] float32", "string 'x'",
** "nil". The text is in a thread-local buffer. */
const char *tli_describe(lua_State *L, const tli_State *S, int index);

/* Raises an error if any argument after the first n is not nil. Functions that have no signature,
** and so do not use tli_args_begin, call this function. */
void tli_only(lua_State *L, int n, const char *name);

/* Reads a torch.complex value (tensor/complex_value.c). */
bool tli_to_complex(lua_State *L, int index, tl_Scalar *out);

/* Each function below pushes a result of an operator and returns 1. */
int tli_push_complex(lua_State *L, double real, double imag);
int tli_push_scalar(lua_State *L, tl_Scalar s);
int tli_push_ints(lua_State *L, tl_Ints ints);

/* Reads a whole number from the stack: an integer, or a float without a fraction. Returns false for
** any other value. */
bool tli_to_whole(lua_State *L, int index, int64_t *out);
/* Reads a position, which counts from 1 or from the end, and converts it to count from 0; 0 is
** refused. */
bool tli_to_position(lua_State *L, int index, int64_t *out);
/* Reads a Lua number or boolean, or a complex number. */
bool tli_to_scalar(lua_State *L, int index, tl_Scalar *out);
/* Returns a string without zero bytes, borrowed from the stack; NULL for any other value. */
const char *tli_to_word(lua_State *L, int index);
tl_DType tli_to_dtype(lua_State *L, int index);
bool tli_to_device(lua_State *L, int index, tl_Device *out);
/* Returns the text of a string or of a torch.device; NULL for other values
** (devices/device_value.c). */
const char *tli_to_device_name(lua_State *L, int index);
/* Pushes the state's torch.device for a device; nil for TLI_NODEVICE. */
int tli_push_device(lua_State *L, tl_Device device);
tli_Generator *tli_to_generator(lua_State *L, int index);
/* Returns the device of the torch.Generator at a stack index. */
tl_Device tli_generator_device(lua_State *L, int index);

/* A function that the operator table exports to Lua. The list is generated. */
typedef struct tli_Binding {
  const char *name;
  const char *module; /* name of the function's module; NULL means torch itself */
  lua_CFunction fn;
  bool method, function;
} tli_Binding;

#endif
