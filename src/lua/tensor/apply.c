/*
** apply.c - the methods apply_ and map_, which call a Lua function for each element.
**
** The function may change or release the tensors, or raise an error. So the function receives the
** elements of a copy, and its results are stored in the copy. After the last call the copy is
** written to the tensor, with the same checks as in every in-place operator.
*/
#include "core/observe/trace.h"
#include "lua/tensor/value.h"

#include <math.h>

/* Makes a row-major copy, on the CPU, of the tensor at a stack index. Pushes a value that owns the
** copy, and returns the copy. */
static tl_Tensor *push_copy(lua_State *L, const char *name, int index) {
  tli_Box *box = tli_push_box(L);
  tl_Tensor *t = tli_check_tensor(L, index, name), *plain = tli_detached(t), *copy = NULL,
            *rows = NULL;
  if (plain && tli_trace_read(t)) copy = tlo_to(plain, TL_NODTYPE, false, true, TLI_CPU, NULL);
  if (copy) rows = tli_contiguous_as(copy, (tl_DType)copy->dtype);
  tli_release(plain);
  tli_release(copy);
  if (rows == NULL) tli_raise_as(L, name);
  tli_fill_box(tli_state(L), box, rows);
  return rows;
}

static void *element(const tl_Tensor *t, int64_t i) {
  return (char *)tli_data(t) + i * tli_dtype_bytes[t->dtype];
}

static bool is_whole(tl_Scalar value) {
  double x = tli_to_double(value);
  return x == floor(x);
}

/* Calls the function at index `fn` for each position in the n copies, with the n elements there.
** The function's result replaces the element of the first copy. */
static bool each_element(lua_State *L, const char *name, int fn, int n, tl_Tensor *const *copies) {
  tl_DType dtype = (tl_DType)copies[0]->dtype;
  for (int64_t i = 0; i < copies[0]->numel; i++) {
    lua_pushvalue(L, fn);
    for (int k = 0; k < n; k++)
      tli_push_scalar(L, tli_load(element(copies[k], i), (tl_DType)copies[k]->dtype));
    lua_call(L, n, 1);
    tl_Scalar value;
    if (!tli_to_scalar(L, -1, &value))
      return tli_fail(TL_EARG, "%s: the function must return a number, got %s", name,
                      tli_describe(L, tli_state(L), lua_gettop(L)));
    lua_pop(L, 1);
    if (!tli_is_float(dtype) && !is_whole(value))
      return tli_fail(TL_EARG, "%s: the function must return whole numbers for %s, got %g", name,
                      tl_dtype_name(dtype), tli_to_double(value));
    TL_TRY(tli_check_holds(name, value, dtype));
    tli_store(element(copies[0], i), dtype, value);
  }
  return true;
}

static bool may_write(const char *name, const tl_Tensor *t) {
  if (tli_requires_grad(t) && tli_grad_mode())
    return tli_fail(TL_EAUTOGRAD, "%s: cannot be recorded; use torch.no_grad", name);
  return tli_inplace_check(name, t);
}

/* Writes the results to the tensor at index 1, which the function may have changed. */
static bool write_results(lua_State *L, const char *name, tl_Tensor *results) {
  tl_Tensor *t = tli_check_tensor(L, 1, name);
  if (!tli_same_sizes(t, results) || t->dtype != results->dtype)
    return tli_fail(TL_EARG, "%s: the function has changed the tensor itself, from %s %s to %s %s",
                    name, tli_sizes_str(results), tl_dtype_name((tl_DType)results->dtype),
                    tli_sizes_str(t), tl_dtype_name((tl_DType)t->dtype));
  TL_TRY(may_write(name, t));
  tl_Tensor *there = tlo_to(results, TL_NODTYPE, false, false, tli_device(t), NULL);
  return tli_write_back(name, t, there) && tli_inplace_done(name, t, NULL);
}

/* Implements apply_(fn), which replaces each element by fn(element), and map_(other, fn), which
** replaces it by fn(element, element of other). Neither method is differentiable. */
static int elementwise(lua_State *L, const char *name, int n) {
  tl_Tensor *t = tli_check_tensor(L, 1, name);
  int fn = n + 1;
  if (n == 2) tli_check_tensor(L, 2, name);
  if (lua_type(L, fn) != LUA_TFUNCTION)
    return tli_error(L, "%s: expected a function, got %s", name,
                     tli_describe(L, tli_state(L), lua_isnone(L, fn) ? 0 : fn));
  if (!may_write(name, t)) return tli_raise(L);
  lua_settop(L, fn);
  tl_Tensor *copies[2] = {push_copy(L, name, 1), NULL};
  if (n == 2) {
    /* compares the shapes only now, because a finalizer may have changed the tensors while the
    ** copies were made */
    copies[1] = push_copy(L, name, 2);
    if (!tli_same_sizes(copies[0], copies[1]))
      return tli_error(L, "%s: expected tensors of one shape, got %s and %s", name,
                       tli_sizes_str(copies[0]), tli_sizes_str(copies[1]));
  }
  if (!each_element(L, name, fn, n, copies) || !write_results(L, name, copies[0]))
    return tli_raise(L);
  /* releases the copies now, instead of leaving them to the collector */
  for (int k = 1; k <= n; k++) tli_release_box(L, fn + k);
  lua_settop(L, 1);
  return 1;
}

static int apply_(lua_State *L) { return elementwise(L, "apply_", 1); }
static int map_(lua_State *L) { return elementwise(L, "map_", 2); }

const luaL_Reg tli_apply_methods[] = {{"apply_", apply_}, {"map_", map_}, {NULL, NULL}};
