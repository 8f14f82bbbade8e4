/*
** files.c - torch.io.read, write, crc32, replace and commit, which transfer the bytes of tensors
** between files and memory. Lua code implements the file formats with these functions. In files,
** elements are little-endian. File handles are those of Lua's io library. torch.io.is_terminal,
** clock and time serve code that shows progress.
*/
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/codecs.h"
#include "core/platform/platform.h"
#include "core/platform/replace.h"
#include "dist/sha256.h"
#include "lua/tensor/value.h"
#include "ops/file_order.h"

static FILE *check_file(lua_State *L, int index, const char *what) {
  luaL_Stream *stream = (luaL_Stream *)luaL_testudata(L, index, LUA_FILEHANDLE);
  if (stream == NULL)
    tli_error(L, "%s: expected a file, got %s", what, tli_describe(L, tli_state(L), index));
  if (stream->closef == NULL) tli_error(L, "%s: the file is closed", what);
  return stream->f;
}

/* Sets every nonzero byte of a bool tensor to 1, because a file may contain other values. */
static void normalize(tl_Tensor *t) {
  if (t->dtype != TL_BOOL) return;
  unsigned char *p = (unsigned char *)tli_data(t);
  for (int64_t i = 0; i < t->numel; i++) p[i] = p[i] != 0;
}

/* read(file, shape, dtype) returns a tensor, or nil and a message if the file ends before the last
** element or cannot be read. */
static int io_read(lua_State *L) {
  static const tli_Param params[] = {
      {"file", TLI_A_TENSOR, 0, 0}, {"shape", TLI_A_INTS, 0, 0}, {"dtype", TLI_A_DTYPE, 0, 0}};
  static const tli_Signature sig = {
      "io.read", "torch.io.read(file, shape, dtype)", params, 3, false, true};
  check_file(L, 1, "io.read");
  tli_Args a;
  tli_args_begin(&a, L, &sig);
  tli_Box *box = tli_push_box(L);
  tl_Ints shape = tli_arg_ints(&a, 1, TLI_NOINTS);
  tl_DType dtype = tli_arg_dtype(&a, 2, TL_NODTYPE);
  /* checks the file again, because a finalizer may have closed it */
  FILE *file = check_file(L, 1, "io.read");
  if (!a.failed && shape.n > TL_MAX_DIMS) {
    tli_fail(TL_ESHAPE, "io.read: more than %d dimensions", TL_MAX_DIMS);
    a.failed = true;
  }
  tl_Tensor *t = a.failed ? NULL : tli_empty(dtype, TLI_CPU, (int)shape.n, shape.v);
  tli_args_end(&a);
  if (t == NULL) return tli_raise(L);
  size_t bytes = tl_dtype_size(dtype);
  size_t got = t->numel > 0 ? fread(tli_data(t), bytes, (size_t)t->numel, file) : 0;
  if (got != (size_t)t->numel) {
    const char *why = ferror(file) ? strerror(errno) : "unexpected end of file";
    tli_release(t);
    lua_pushnil(L);
    lua_pushstring(L, why);
    return 2;
  }
  tli_swap_for_file(tli_data(t), t->numel, dtype);
  normalize(t);
  tli_fill_box(a.S, box, t);
  return 1;
}

/* Returns a tensor whose memory has the elements in the order that a file has: row-major. Copies
** the tensor only if necessary. */
static tl_Tensor *in_file_order(const char *name, tl_Tensor *t) {
  if (tli_device(t).type != TL_CPU)
    return tli_fail_null(TL_EDEVICE, "%s: expected a tensor of the CPU, got one of %s", name,
                         tli_device_str(tli_device(t)));
  return tli_in_file_order(t);
}

/* Pushes the reason why a write has failed. If the tensor is a mapped file that was truncated, the
** system reports EFAULT. */
static void push_write_failure(lua_State *L, const tl_Tensor *t, int error) {
  const char *path = error == EFAULT ? tli_file_mapped(tli_data(t)) : NULL;
  if (path == NULL)
    lua_pushstring(L, strerror(error));
  else
    lua_pushfstring(
        L,
        "the tensor's elements are in the mapped file %s, which has become shorter: those "
        "behind its end are lost",
        path);
}

/* write(file, tensor) returns true, or nil and a message. */
static int io_write(lua_State *L) {
  FILE *file = check_file(L, 1, "io.write");
  tl_Tensor *plain = in_file_order("io.write", tli_check_tensor(L, 2, "io.write"));
  if (plain == NULL) return tli_raise(L);
  size_t bytes = tl_dtype_size((tl_DType)plain->dtype);
  size_t put = plain->numel > 0 ? fwrite(tli_data(plain), bytes, (size_t)plain->numel, file) : 0;
  bool ok = put == (size_t)plain->numel;
  int error = errno;
  if (!ok) {
    lua_pushnil(L);
    push_write_failure(L, plain, error);
  }
  tli_release(plain);
  if (!ok) return 2;
  lua_pushboolean(L, 1);
  return 1;
}

/* crc32(text or tensor, crc) returns the checksum, as in zip files, of the bytes that `write` would
** write; `crc`, 0 by default, is the checksum of the preceding data. */
static int io_crc32(lua_State *L) {
  int64_t crc = 0;
  if (!lua_isnoneornil(L, 2) && !tli_to_whole(L, 2, &crc))
    return tli_error(L, "io.crc32: crc: expected an integer, got %s",
                     tli_describe(L, tli_state(L), 2));
  if (lua_type(L, 1) == LUA_TSTRING) {
    size_t n;
    const char *text = lua_tolstring(L, 1, &n);
    lua_pushinteger(L, tli_crc32((uint32_t)crc, text, n));
    return 1;
  }
  tl_Tensor *plain = in_file_order("io.crc32", tli_check_tensor(L, 1, "io.crc32"));
  if (plain == NULL) return tli_raise(L);
  size_t bytes = (size_t)plain->numel * tl_dtype_size((tl_DType)plain->dtype);
  uint32_t result = tli_crc32((uint32_t)crc, tli_data(plain), bytes);
  tli_release(plain);
  lua_pushinteger(L, result);
  return 1;
}

/* ---- replacing a file ---- */

/* A new file, as a file of Lua's io library. commit() moves the new file to a given path, where it
** replaces the old file. */
typedef struct Output {
  luaL_Stream stream;
  tli_Replace *replace; /* owned */
} Output;

/* Closes a file that was not committed. After an error the collector calls this function. */
static int abandon(lua_State *L) {
  Output *out = (Output *)lua_touserdata(L, 1);
  tli_replace_abort(out->replace);
  out->replace = NULL;
  lua_pushboolean(L, 1);
  return 1;
}

/* replace(path, named) returns a file, or nil and a message. commit(file) later moves that file to
** `path`; without a commit the old file at `path` stays. */
static int io_replace(lua_State *L) {
  bool named = lua_toboolean(L, 2);
  const char *path = tli_to_word(L, 1);
  if (path == NULL)
    return tli_error(L, "io.replace: expected a path, got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  if (luaL_getmetatable(L, LUA_FILEHANDLE) != LUA_TTABLE) {
    lua_pushnil(L);
    lua_pushliteral(L, "Lua's io library is needed and was not opened");
    return 2;
  }
  Output *out = (Output *)lua_newuserdatauv(L, sizeof *out, 0);
  *out = (Output){{NULL, NULL}, NULL};
  lua_insert(L, -2);
  lua_setmetatable(L, -2);
  out->replace = tli_replace_begin(path, named);
  if (out->replace) {
    out->stream = (luaL_Stream){tli_replace_file(out->replace), abandon};
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, tl_error());
  return 2;
}

/* commit(file) flushes a file from replace() to the disk, closes it, and moves it to its path.
** Returns true. On failure returns nil, a message, and whether another attempt may succeed. */
static int io_commit(lua_State *L) {
  check_file(L, 1, "io.commit");
  Output *out = (Output *)lua_touserdata(L, 1);
  if (out->stream.closef != abandon)
    return tli_error(L, "io.commit: expected a file that io.replace has made");
  bool again;
  tli_Replace *replace = out->replace;
  out->replace = NULL;
  out->stream.closef = NULL;
  if (tli_replace_commit(replace, &again)) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, tl_error());
  lua_pushboolean(L, again);
  return 3;
}

/* ---- progress ---- */

/* is_terminal(file) returns whether the file is a terminal. */
static int io_is_terminal(lua_State *L) {
  lua_pushboolean(L, tli_file_is_terminal(check_file(L, 1, "io.is_terminal")));
  return 1;
}

/* _hold(file, path) locks the file until it is closed. Returns true if the lock was obtained and
** `path` still names this file. */
static int io_hold(lua_State *L) {
  FILE *file = check_file(L, 1, "io._hold");
  lua_pushboolean(L, tli_file_hold(file, luaL_checkstring(L, 2)));
  return 1;
}

#ifndef TLI_INFER
/* _sha256(text or bytes) returns the SHA-256 checksum as 64 hexadecimal digits. */
static int io_sha256(lua_State *L) {
  size_t n;
  const char *data;
  if (lua_type(L, 1) == LUA_TSTRING) {
    data = lua_tolstring(L, 1, &n);
  } else {
    const tl_Tensor *t = tli_check_tensor(L, 1, "io._sha256");
    if (tli_device(t).type != TL_CPU || !tli_contiguous(t))
      return tli_error(L, "io._sha256: expected a contiguous tensor on the CPU");
    data = (const char *)tli_data(t);
    n = (size_t)t->numel * tl_dtype_size((tl_DType)t->dtype);
  }
  tli_Sha256 s;
  unsigned char sum[TLI_SHA256_BYTES];
  char text[2 * TLI_SHA256_BYTES + 1];
  tli_sha256_begin(&s);
  tli_sha256_add(&s, data, n);
  tli_sha256_end(&s, sum);
  for (int i = 0; i < TLI_SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", sum[i]);
  lua_pushstring(L, text);
  return 1;
}
#endif

/* clock() returns the seconds of a monotonic clock. */
static int io_clock(lua_State *L) {
  tli_only(L, 0, "io.clock");
  lua_pushnumber(L, 1e-9 * (lua_Number)tli_now_ns());
  return 1;
}

/* time() returns seconds since 1970, including the fraction. */
static int io_time(lua_State *L) {
  tli_only(L, 0, "io.time");
  lua_pushnumber(L, 1e-9 * (lua_Number)tli_time_ns());
  return 1;
}

static const luaL_Reg functions[] = {{"read", io_read},
                                     {"write", io_write},
                                     {"crc32", io_crc32},
                                     {"replace", io_replace},
                                     {"commit", io_commit},
                                     {"is_terminal", io_is_terminal},
                                     {"clock", io_clock},
                                     {"time", io_time},
                                     {"_hold", io_hold},
                                     {"_json", tli_io_json},
#ifndef TLI_INFER
                                     {"_sha256", io_sha256},
#endif
                                     {NULL, NULL}};

void tli_open_io(lua_State *L) {
  lua_newtable(L);
  tli_set_functions(L, functions);
  tli_set_functions(L, tli_bytes_functions);
#ifndef TLI_INFER
  tli_open_tokens(L);
#endif
  lua_setfield(L, -2, "io");
}
