/*
** value.h - tensors as Lua values: indexing, construction from tables, printing, properties. The
** functions raise Lua errors themselves, unless their comments say otherwise.
*/
#ifndef TLI_VALUE_H
#define TLI_VALUE_H

#include "lua/args/args.h"

/* Returns the tensor at `index`, or raises an error ("method: expected a Tensor, ..."). */
tl_Tensor *tli_check_tensor(lua_State *L, int index, const char *what);
/* Returns the tensor at index 1. Raises an error if the value there is not a tensor, or if there
** are further arguments. */
static inline tl_Tensor *tli_sole_tensor(lua_State *L, const char *what) {
  tli_only(L, 1, what);
  return tli_check_tensor(L, 1, what);
}

/* Raises an error such as "record: name: expected a string, got nil" unless the value at a stack
** index has the Lua type `type`. */
void tli_check_type(lua_State *L, int index, int type, const char *what);

/* Pushes a tensor that the host can read, and returns the tensor: an alias of the tensor at `index`
** or, if that is on a device, a copy on the CPU. The result stays valid even if Lua code, such as a
** finalizer, changes or releases the original. tli_release_box releases the pushed value. */
tl_Tensor *tli_push_alias(lua_State *L, int index, const char *what);

/* Implements x[key], with tensor and key at stack indices 1 and 2; pushes the result. */
int tli_index_get(lua_State *L);
/* Implements x[key] = value, with key and value at stack indices 2 and 3. */
int tli_index_set(lua_State *L, tl_Tensor *self);

/* Makes a tensor from the number, boolean or nested tables at `index`. With TL_NODTYPE the dtype
** follows from the elements. On failure returns NULL, with a message that contains the path of the
** wrong element. */
tl_Tensor *tli_from_lua(lua_State *L, int index, tl_DType dtype);

/* Pushes the text that PyTorch would print for the tensor at `index`. */
void tli_print_tensor(lua_State *L, int index);

/* The state of a search for the name that is most similar to `word`. At the end tli_suggestion_text
** returns "; did you mean 'shape'?", or "" if no name is similar enough. */
typedef struct tli_Suggestion {
  const char *word, *name;
  int distance;
} tli_Suggestion;
#define TLI_SUGGESTION(word) ((tli_Suggestion){(word), NULL, 3})
void tli_suggestion_try(tli_Suggestion *best, const char *name);
const char *tli_suggestion_text(const tli_Suggestion *best, char *out, size_t size);
/* Returns a hint for a wrong dtype: "; did you mean 'int16'?" or, if no dtype has a similar name,
** "; the dtypes are ...". The text is in a thread-local buffer. */
const char *tli_dtype_hint(const char *word);
/* Returns a hint for a wrong device: "; the devices are ...". The text is in a thread-local
** buffer. */
const char *tli_device_hint(void);

/* A property x.name. If `set` is not NULL, a program can also assign x.name = value. */
typedef struct tli_Property {
  const char *name;
  int (*get)(lua_State *L, tli_State *S, tl_Tensor *t); /* Pushes the property's value. */
  /* Assigns a value; NULL if the property is read-only. */
  int (*set)(lua_State *L, tli_State *S, tl_Tensor *t, int value);
} tli_Property;

/* Lists of properties of tensors. The last entry of each list has NULL as its name. */
extern const tli_Property tli_tensor_properties[];   /* tensor.c */
extern const tli_Property tli_autograd_properties[]; /* tensor_history.c */
/* tensor methods for gradients, in the file of tli_autograd_properties */
extern const luaL_Reg tli_autograd_methods[];
extern const luaL_Reg tli_apply_methods[];     /* apply.c */
extern const luaL_Reg tli_storage_functions[]; /* functions of storage.c for torch */
extern const luaL_Reg tli_bytes_functions[];   /* functions of bytes.c for torch.io */
extern const luaL_Reg tli_device_methods[];    /* devices/memory_stats.c */

/* Turns the list on top of the stack into a torch.Size (size.c). */
void tli_set_size(lua_State *L);
/* Returns whether the value at a stack index is a torch.Size. */
bool tli_is_size(lua_State *L, int index);

/* Each of the following functions adds the Lua functions of one file to the module table, which is
** on top of the stack. */
void tli_open_tensor(lua_State *L);
void tli_open_size(lua_State *L);
void tli_open_autograd(lua_State *L);
void tli_open_system(lua_State *L);     /* functions for threads, memory, printing and dtypes */
void tli_open_generators(lua_State *L); /* functions for random numbers */
void tli_open_io(lua_State *L);
void tli_open_constants(lua_State *L);
void tli_open_torch_device(lua_State *L);
void tli_open_complex(lua_State *L);  /* complex_value.c */
void tli_open_devices(lua_State *L);  /* the modules torch.cuda and torch.sim */
void tli_open_settings(lua_State *L); /* functions for settings of kernels */
void tli_open_dist(lua_State *L);     /* functions for torch.distributed */
void tli_open_scope(lua_State *L);
void tli_open_socket(lua_State *L);
int tli_io_json(lua_State *L);      /* torch.io._json, in io/json.c */
void tli_open_tokens(lua_State *L); /* functions of io/tokens.c for torch.io */
void tli_open_notebook(lua_State *L);
void tli_open_profile(lua_State *L);
void tli_open_optim(lua_State *L);
void tli_open_programs(lua_State *L); /* functions for traces and programs (src/lua/program.c) */
void tli_open_guards(lua_State *L);   /* checks of torch.compile (src/lua/guards.c) */
/* Writes the path of the modules that are being called, such as "Sequential.1", or "" if there are
** none (raise.c). Raises no error. */
void tli_module_path(lua_State *L, char *text, size_t size);
void tli_open_call_site(void);       /* lets reports of devices name the calling line */
void tli_open_library(lua_State *L); /* makes the embedded Lua files available */
void tli_open_workers(lua_State *L); /* functions for threads, each of which has an interpreter */
/* functions that pack values into strings, for other processes */
void tli_open_parcels(lua_State *L);

/* Pushes the environment of the embedded Lua files. */
void tli_push_environment(lua_State *L);

/* A variable whose address, as a light userdata, is the value torch.newaxis. */
extern const char tli_newaxis;

#endif
