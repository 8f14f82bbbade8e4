/*
** value.h - tensors as Lua values: indexing, making them from tables,
** printing, properties. Everything here raises Lua errors itself.
*/
#ifndef TLI_VALUE_H
#define TLI_VALUE_H

#include "lua/args/args.h"

/* Returns the tensor at `index` or raises ("method: expected a Tensor, ..."). */
tl_Tensor *tli_check_tensor(lua_State *L, int index, const char *what);

/* Raises ("record: name: expected a string, got nil") unless the value has Lua's type `type`. */
void tli_check_type(lua_State *L, int index, int type, const char *what);

/* Pushes a value that holds an alias of the tensor at `index`, of a device a copy on
** the CPU, for the host to read: it stays as it
** is while Lua code, if only a finalizer's, may change or release that one. To
** be released again, with tli_release_box. */
tl_Tensor *tli_push_alias(lua_State *L, int index, const char *what);

/* x[key], the tensor and the key being at stack indices 1 and 2; pushes the result. */
int tli_index_get(lua_State *L);
/* x[key] = value, at 2 and 3. */
int tli_index_set(lua_State *L, tl_Tensor *self);

/* A new tensor from a number, a boolean or nested tables at `index`; dtype
** may be TL_NODTYPE. NULL with a message that gives the path of what is wrong.*/
tl_Tensor *tli_from_lua(lua_State *L, int index, tl_DType dtype);

/* Pushes the text that PyTorch would print of the tensor at `index`. */
void tli_print_tensor(lua_State *L, int index);

/* "; did you mean 'shape'?" of the names that were tried, or "". */
typedef struct tli_Near {
  const char *word, *name;
  int distance;
} tli_Near;
#define TLI_NEAR(word) ((tli_Near){(word), NULL, 3})
void tli_near_try(tli_Near *near, const char *name);
const char *tli_near_hint(const tli_Near *near, char *out, size_t size);
/* "; did you mean 'int16'?", else "; the dtypes are ...". In a thread-local buffer. */
const char *tli_dtype_hint(const char *word);
/* "; the devices are ...". In a thread-local buffer. */
const char *tli_device_hint(void);
/* Raises if the Lua line that reads x.device compares it with a literal string. */
void tli_check_device_comparison(lua_State *L);

/* Properties: read as x.name, written as x.name = value if there is a set. */
typedef struct tli_Property {
  const char *name;
  int (*get)(lua_State *L, tli_State *S, tl_Tensor *t);            /* pushes one value */
  int (*set)(lua_State *L, tli_State *S, tl_Tensor *t, int value); /* NULL: read only */
} tli_Property;

/* Lists ended by NULL names. */
extern const tli_Property tli_tensor_properties[];   /* tensor.c */
extern const tli_Property tli_autograd_properties[]; /* autograd.c */
extern const luaL_Reg tli_autograd_methods[];        /* autograd.c: methods of tensors */
extern const luaL_Reg tli_apply_methods[];           /* apply.c */
extern const luaL_Reg tli_bytes_functions[];         /* bytes.c: more of torch.io */
extern const luaL_Reg tli_device_methods[];          /* devices/device_module.c */

/* Each adds to the module table on top of the stack. */
void tli_open_tensor(lua_State *L);
void tli_open_autograd(lua_State *L);
void tli_open_system(lua_State *L);     /* threads, memory, printing, dtypes */
void tli_open_generators(lua_State *L); /* random numbers */
void tli_open_io(lua_State *L);
void tli_open_constants(lua_State *L);
void tli_open_torch_device(lua_State *L);
void tli_open_device_comparison(lua_State *L);
void tli_open_devices(lua_State *L);  /* torch.cuda, torch.sim */
void tli_open_settings(lua_State *L); /* what kernels go by */
void tli_open_dist(lua_State *L);     /* what torch.distributed is made of */
void tli_open_scope(lua_State *L);
void tli_open_socket(lua_State *L);
void tli_open_profile(lua_State *L);
void tli_open_optim(lua_State *L);
/* Writes the path of the modules that are being called, "" for none (raise.c). Raises
** nothing. */
void tli_module_path(lua_State *L, char *text, size_t size);
void tli_open_call_site(void);       /* for what devices report later */
void tli_open_library(lua_State *L); /* the embedded Lua files */
void tli_open_workers(lua_State *L); /* threads with an interpreter of their own */
void tli_open_parcels(lua_State *L); /* values as strings, for other processes */

/* Pushes the environment of the embedded Lua files. */
void tli_push_environment(lua_State *L);

/* The address of this is torch.newaxis. */
extern const char tli_newaxis;

#endif
