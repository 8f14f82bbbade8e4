/*
** host.c - a C program that uses tensors: it opens an ordinary Lua state, adds tlua, and calls a
** script with a tensor over its own floats, which are not copied; then it reads the tensor that the
** script returns.
**
**   make && ./host script.lua
** */
#include <stdio.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <tlua.h>

enum { READINGS = 4, SENSORS = 3 };

static float readings[READINGS][SENSORS] = {{1, 2, 3}, {2, 4, 6}, {3, 6, 9}, {4, 8, 12}};

/* Calls the script, a function of one tensor that returns a tensor. The call runs in protected
** mode, since pushing a tensor may raise an error. */
static int call_script(lua_State *L) {
  lua_getglobal(L, "normalise");
  const int64_t sizes[] = {READINGS, SENSORS};
  tl_Tensor *input = tl_tensor_wrap(readings, TL_F32, 2, sizes, NULL, NULL, NULL);
  if (input == NULL) return luaL_error(L, "%s", tl_error());
  tl_lua_push(L, input); /* the Lua value holds its own reference */
  tl_tensor_release(input);
  lua_call(L, 1, 1);
  return 1;
}

static bool run(lua_State *L, const char *script) {
  if (luaL_dofile(L, script) != LUA_OK) return false;
  lua_pushcfunction(L, call_script);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) return false;

  tl_Tensor *output = tl_lua_to(L, -1); /* borrowed: valid while the value is on the stack */
  float result[READINGS][SENSORS];
  if (output == NULL || !tl_tensor_read(output, TL_F32, result, sizeof result)) {
    lua_pushstring(L, output == NULL ? "normalise must return a tensor" : tl_error());
    return false;
  }
  for (int i = 0; i < READINGS; i++)
    printf("%6.3f %6.3f %6.3f\n", result[i][0], result[i][1], result[i][2]);
  printf("the last reading, limited in place: %g\n", readings[READINGS - 1][SENSORS - 1]);
  return true;
}

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  if (L == NULL) return 1;
  luaL_openlibs(L);
  bool ok = tl_lua_open(L);
  if (!ok) {
    fprintf(stderr, "%s\n", tl_error());
  } else if (!(ok = run(L, argc > 1 ? argv[1] : "script.lua"))) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
  }
  lua_close(L);
  return ok ? 0 : 1;
}
