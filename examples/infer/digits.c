/*
** digits.c - recognises handwritten digits with the weights that examples/digits.lua saves:
**
**   make PROFILE=infer
**   build/infer/digits digits.lua digits.safetensors digits.csv
**
** The last file has the format of examples/data/digits.csv: each line has 64 grey levels from 0 to
** 16 and the digit. The program prints how many digits it recognises.
** */
#include <stdio.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <tlua.h>

enum { MOST = 2000, PIXELS = 64 };

static float images[MOST][PIXELS];
static int digits[MOST];

/* Reads the digits of a file; returns the number of lines read, or -1. */
static int read_digits(const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return -1;
  int n = 0;
  for (; n < MOST; n++) {
    float level;
    int i = 0;
    for (; i < PIXELS && fscanf(file, "%f,", &level) == 1; i++) images[n][i] = level / 16;
    if (i < PIXELS || fscanf(file, "%d", &digits[n]) != 1) break;
  }
  fclose(file);
  return n;
}

/* Calls the model, a function of a tensor of n images that returns their digits as a tensor. The
** call runs in protected mode, since pushing a tensor may raise an error. */
static int call_model(lua_State *L) {
  const int64_t sizes[] = {lua_tointeger(L, 2), 1, 8, 8};
  tl_Tensor *input = tl_tensor_wrap(images, TL_F32, 4, sizes, NULL, NULL, NULL);
  if (input == NULL) return luaL_error(L, "%s", tl_error());
  lua_pushvalue(L, 1);
  tl_lua_push(L, input); /* the Lua value holds its own reference */
  tl_tensor_release(input);
  lua_call(L, 1, 1);
  return 1;
}

static bool run(lua_State *L, char **argv) {
  int n = read_digits(argv[3]);
  if (n <= 0) {
    lua_pushfstring(L, "%s: expected lines of 64 numbers and a digit", argv[3]);
    return false;
  }
  lua_pushcfunction(L, call_model);
  if (luaL_loadfile(L, argv[1]) != LUA_OK) return false;
  lua_pushstring(L, argv[2]);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) return false;
  lua_pushinteger(L, n);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) return false;
  static int64_t seen[MOST];
  tl_Tensor *output = tl_lua_to(L, -1); /* borrowed: valid while the value is on the stack */
  if (output == NULL || !tl_tensor_read(output, TL_I64, seen, (size_t)n * sizeof seen[0])) {
    lua_pushstring(L, output == NULL ? "the model must return a tensor" : tl_error());
    return false;
  }
  int right = 0;
  for (int i = 0; i < n; i++) right += seen[i] == digits[i];
  printf("%d of %d digits read right\n", right, n);
  return true;
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: digits MODEL.lua WEIGHTS DIGITS.csv\n"), 2;
  lua_State *L = luaL_newstate();
  if (L == NULL) return 1;
  luaL_openlibs(L);
  bool ok = tl_lua_open(L);
  if (!ok) {
    fprintf(stderr, "%s\n", tl_error());
  } else if (!(ok = run(L, argv))) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
  }
  lua_close(L);
  return ok ? 0 : 1;
}
