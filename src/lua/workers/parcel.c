/*
** parcel.c - packs Lua values into parcels (parcel.h); parcel_format.h describes the format.
**
** Invariant: while Lua may raise an error, the parcel being written belongs to a userdata on the
** stack.
*/
#include "lua/args/sparse.h"
#include "lua/workers/parcel_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/tensor/value.h"

/* ---- the parcel ---------------------------------------------------------------- */

void tli_parcel_free(tli_Parcel *p) {
  if (p == NULL) return;
  for (int i = 0; i < p->ntensors; i++) tli_release(p->tensors[i]);
  free(p->tensors);
  free(p->bytes);
  free(p);
}

static int holder_gc(lua_State *L) {
  tli_Parcel **holder = (tli_Parcel **)lua_touserdata(L, 1);
  tli_parcel_free(*holder);
  *holder = NULL;
  return 0;
}

/* Pushes a userdata that owns a parcel, and returns the address where the caller stores the
** parcel. */
static tli_Parcel **push_holder(lua_State *L) {
  tli_Parcel **holder = (tli_Parcel **)lua_newuserdatauv(L, sizeof *holder, 0);
  *holder = NULL;
  if (luaL_newmetatable(L, "torch.Parcel")) {
    lua_pushcfunction(L, holder_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  *holder = (tli_Parcel *)calloc(1, sizeof **holder);
  if (*holder == NULL) luaL_error(L, "not enough memory");
  return holder;
}

/* ---- writing -------------------------------------------------------------------- */

/* The location of a value, for error messages. `outer` is the location of the table or function
** that contains the value. */
typedef struct Place {
  const struct Place *outer;
  const char *kind; /* the kind of location: "field", "upvalue", ... */
  char name[64];
} Place;

typedef struct Packer {
  lua_State *L;
  tli_State *S;
  tli_Parcel *p; /* the parcel that is being written (borrowed) */
  const char *what;
  bool first_one;
  int classes; /* stack index of the table of known classes; 0 if there is none */
  int numbers; /* stack index of the table from values to their numbers */
  /* stack index of a table from the address of each upvalue to {number of the first function with
  ** this upvalue, index of the upvalue in that function} */
  int upvalues;
  /* stack index of the table from known values to {module, field}; the stack has nil there until
  ** the table is needed */
  int known;
  int count;
  int depth;
} Packer;

static bool put(tli_Parcel *p, const void *bytes, size_t n) {
  if (p->n + n > p->room) {
    size_t room = p->room * 2 + n + 64;
    char *grown = (char *)realloc(p->bytes, room);
    if (grown == NULL) return false;
    p->bytes = grown;
    p->room = room;
  }
  if (n > 0) memcpy(p->bytes + p->n, bytes, n);
  p->n += n;
  return true;
}

static void write_bytes(Packer *k, const void *bytes, size_t n) {
  if (!put(k->p, bytes, n)) luaL_error(k->L, "not enough memory");
}

static void write_tag(Packer *k, Tag tag) {
  char c = (char)tag;
  write_bytes(k, &c, 1);
}

static void write_whole(Packer *k, int64_t n) { write_bytes(k, &n, sizeof n); }

static void write_text(Packer *k, const char *text, size_t n) {
  write_whole(k, (int64_t)n);
  write_bytes(k, text, n);
}

/* Writes the string at a stack index, without the tag that precedes other values. */
static void write_string(Packer *k, int index) {
  size_t n;
  const char *text = lua_tolstring(k->L, index, &n);
  write_text(k, text, n);
}

/* Raises an error that names a value's location. If the path is long, only its beginning and its
** end are shown. */
static int refuse(Packer *k, const Place *place, const char *why) {
  enum { INNER = 6, OUTER = 3 };
  luaL_Buffer b;
  luaL_buffinit(k->L, &b);
  int places = 0, n = 0;
  for (const Place *at = place; at; at = at->outer) places++;
  for (const Place *at = place; at; at = at->outer) {
    if (++n > INNER && n <= places - OUTER) {
      if (n == INNER + 1) luaL_addstring(&b, "... of ");
      continue;
    }
    luaL_addstring(&b, at->kind);
    luaL_addstring(&b, at->name);
    luaL_addstring(&b, at->outer ? " of " : "");
  }
  luaL_pushresult(&b);
  return tli_error(k->L, "%s: %s%s%s", k->what, lua_tostring(k->L, -1), place ? " is " : "", why);
}

static void name_key(lua_State *L, int index, Place *at) {
  if (lua_type(L, index) == LUA_TSTRING)
    snprintf(at->name, sizeof at->name, "'%.50s'", lua_tostring(L, index));
  else if (lua_isinteger(L, index))
    snprintf(at->name, sizeof at->name, "[%lld]", (long long)lua_tointeger(L, index));
  else
    snprintf(at->name, sizeof at->name, "[a %s]", luaL_typename(L, index));
}

/* ---- values that both sides have ---- */

/* Pops a value and sets known[value] = {module, field} if the value has no entry yet. */
static void enter(lua_State *L, int known, const char *module, const char *field) {
  lua_pushvalue(L, -1);
  if (lua_rawget(L, known) != LUA_TNIL) {
    lua_pop(L, 2);
    return;
  }
  lua_pop(L, 1);
  lua_createtable(L, 2, 0);
  lua_pushstring(L, module);
  lua_rawseti(L, -2, 1);
  lua_pushstring(L, field);
  lua_rawseti(L, -2, 2);
  lua_rawset(L, known);
}

/* Returns whether the value at a stack index is a class of tlua.class. */
static bool is_class(lua_State *L, int index) {
  bool is = lua_istable(L, index) && lua_getmetatable(L, index);
  if (!is) return false;
  lua_pushliteral(L, "ancestors");
  is = lua_rawget(L, -2) == LUA_TTABLE;
  lua_pop(L, 2);
  return is;
}

/* Adds the functions and classes of a module to the table `known`, because the receiver presumably
** has the same module. If the module is the table of globals, adds only C functions, since other
** functions belong to the program. If the module belongs to the library, adds all of its tables as
** well. */
static void enter_fields(lua_State *L, int known, const char *module, int table) {
  bool globals = strcmp(module, LUA_GNAME) == 0;
  bool ours = strncmp(module, "tlua", 4) == 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    int type = lua_type(L, -1);
    bool same = globals              ? lua_iscfunction(L, -1)
                : type == LUA_TTABLE ? ours || is_class(L, lua_gettop(L))
                                     : type == LUA_TFUNCTION;
    if (same && lua_type(L, -2) == LUA_TSTRING)
      enter(L, known, module, lua_tostring(L, -2));
    else
      lua_pop(L, 1);
  }
}

/* Replaces the nil at stack index k->known by a table of the contents of all loaded modules. */
static void find_known(Packer *k) {
  lua_State *L = k->L;
  lua_newtable(L);
  int known = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  int loaded = lua_gettop(L);
  /* the first pass adds the modules, and the second pass their fields */
  for (int pass = 0; pass < 2; pass++) {
    lua_pushnil(L);
    while (lua_next(L, loaded)) {
      const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
      int type = lua_type(L, -1);
      if (name && pass == 0 && (type == LUA_TTABLE || type == LUA_TFUNCTION)) {
        lua_pushvalue(L, -1);
        enter(L, known, name, "");
      } else if (name && pass == 1 && type == LUA_TTABLE) {
        enter_fields(L, known, name, lua_gettop(L));
      }
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  lua_replace(L, k->known);
}

/* If the table or function at a stack index has a known name, writes the name and returns true. */
static bool write_known(Packer *k, int index) {
  lua_State *L = k->L;
  lua_pushglobaltable(L);
  bool globals = lua_rawequal(L, -1, index);
  tli_push_environment(L);
  bool environment = lua_rawequal(L, -1, index);
  lua_pop(L, 2);
  if (globals || environment) {
    write_tag(k, globals ? GLOBALS : ENVIRONMENT);
    return true;
  }
  if (k->classes && !k->first_one) {
    lua_pushvalue(L, index);
    bool numbered = lua_rawget(L, k->classes) == LUA_TNUMBER;
    if (numbered) {
      write_tag(k, KNOWN_CLASS);
      write_whole(k, lua_tointeger(L, -1));
    }
    lua_pop(L, 1);
    if (numbered) return true;
  }
  if (lua_isnil(L, k->known)) find_known(k);
  lua_pushvalue(L, index);
  bool known = lua_rawget(L, k->known) == LUA_TTABLE;
  if (known) {
    write_tag(k, MODULE);
    for (int i = 1; i <= 2; i++) {
      lua_rawgeti(L, -1, i);
      write_string(k, -1);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  return known;
}

/* ---- kinds of values ---- */

static void write_value(Packer *k, int index, const Place *place);

/* Assigns the next number to the value at a stack index. */
static void number(Packer *k, int index) {
  lua_pushvalue(k->L, index);
  lua_pushinteger(k->L, ++k->count);
  lua_rawset(k->L, k->numbers);
}

static bool written_before(Packer *k, int index) {
  lua_pushvalue(k->L, index);
  bool before = lua_rawget(k->L, k->numbers) == LUA_TNUMBER;
  if (before) {
    write_tag(k, AGAIN);
    write_whole(k, lua_tointeger(k->L, -1));
  }
  lua_pop(k->L, 1);
  return before;
}

static void write_tensor(Packer *k, int index, const Place *place) {
  tl_Tensor *t = tli_to_tensor(k->L, k->S, index);
  tli_Parcel *p = k->p;
  if (t == NULL) {
    refuse(k, place, "a tensor that was released");
    return; /* this line is never reached, since refuse raises an error */
  }
  if (tli_device(t).type != TL_CPU)
    refuse(k, place, "a tensor of a device; only tensors of the CPU travel to other threads");
  bool wants = t->flags & TLI_REQUIRES_GRAD;
  if (!wants && tli_requires_grad(t))
    refuse(k, place, "a tensor that belongs to a graph; detach() it to send it to another thread");
  if (p->ntensors == p->tensor_room) {
    int room = p->tensor_room * 2 + 8;
    tl_Tensor **grown = (tl_Tensor **)realloc(p->tensors, (size_t)room * sizeof *grown);
    if (grown == NULL) luaL_error(k->L, "not enough memory");
    p->tensors = grown;
    p->tensor_room = room;
  }
  tl_Tensor *alias = tli_detached(t);
  if (alias == NULL) tli_raise(k->L);
  alias->flags |= t->flags & TLI_PARAMETER;
  p->tensors[p->ntensors++] = alias;
  number(k, index);
  write_tag(k, TENSOR);
  write_bytes(k, &wants, 1);
}

static void write_entries(Packer *k, int table, const Place *place) {
  lua_State *L = k->L;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    Place at = {place, "field ", ""};
    name_key(L, lua_gettop(L) - 1, &at);
    write_value(k, lua_gettop(L) - 1, &at);
    write_value(k, lua_gettop(L), &at);
    lua_pop(L, 1);
  }
  write_tag(k, END);
}

/* Writes a class: first its parent, then its own fields except those that every new class has. The
** parent comes first, because the parent's fields may contain the class. */
static void write_class(Packer *k, int index, const Place *place) {
  lua_State *L = k->L;
  lua_getmetatable(L, index);
  lua_pushliteral(L, "parent");
  lua_rawget(L, -2);
  lua_remove(L, -2);
  int parent = lua_gettop(L);
  Place at = {place, "parent of the class", ""};
  if (!lua_isnil(L, parent)) {
    write_tag(k, BEFORE);
    write_value(k, parent, &at);
    if (written_before(k, index)) {
      lua_pop(L, 1);
      return;
    }
  }
  write_tag(k, CLASS);
  lua_pushliteral(L, "__name");
  lua_rawget(L, index);
  write_string(k, -1);
  lua_pop(L, 1);
  write_value(k, parent, &at);
  lua_pop(L, 1);
  /* numbers the class after its parent, because the reader assigns numbers in this order */
  number(k, index);
  if (k->classes && k->first_one) {
    lua_pushvalue(L, index);
    lua_rawseti(L, k->classes, k->count);
    lua_pushvalue(L, index);
    lua_pushinteger(L, k->count);
    lua_rawset(L, k->classes);
  }
  write_entries(k, index, place);
}

static void write_table(Packer *k, int index, const Place *place) {
  lua_State *L = k->L;
  if (is_class(L, index)) {
    write_class(k, index, place);
    return;
  }
  number(k, index);
  if (tli_is_size(L, index)) {
    write_tag(k, SIZE);
  } else if (lua_getmetatable(L, index)) {
    write_tag(k, WITH_META);
    Place at = {place, "metatable", ""};
    write_value(k, lua_gettop(L), &at);
    lua_pop(L, 1);
  } else {
    write_tag(k, TABLE);
  }
  write_entries(k, index, place);
}

static int write_code(lua_State *L, const void *bytes, size_t n, void *parcel) {
  (void)L;
  return !put((tli_Parcel *)parcel, bytes, n);
}

/* Writes upvalue i of a function; the upvalue's value is on top of the stack. If a function that
** was written before shares the upvalue, writes a reference to the upvalue of that function. */
static void write_upvalue(Packer *k, int function, int self, int i, const Place *place) {
  lua_State *L = k->L;
  void *cell = lua_upvalueid(L, function, i);
  if (lua_rawgetp(L, k->upvalues, cell) == LUA_TTABLE) {
    write_tag(k, JOIN);
    for (int part = 1; part <= 2; part++) {
      lua_rawgeti(L, -1, part);
      write_whole(k, lua_tointeger(L, -1));
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return;
  }
  lua_pop(L, 1);
  lua_createtable(L, 2, 0);
  lua_pushinteger(L, self);
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, i);
  lua_rawseti(L, -2, 2);
  lua_rawsetp(L, k->upvalues, cell);
  write_value(k, lua_gettop(L), place);
}

static void write_function(Packer *k, int index, const Place *place) {
  lua_State *L = k->L;
  if (lua_iscfunction(L, index))
    refuse(k, place, "a function written in C that belongs to no module");
  number(k, index);
  int self = k->count;
  write_tag(k, FUNCTION);
  size_t size_at = k->p->n;
  write_whole(k, 0);
  lua_pushvalue(L, index);
  if (lua_dump(L, write_code, k->p, 0) != 0) luaL_error(L, "not enough memory");
  lua_Debug ar;
  lua_getinfo(L, ">uS", &ar);
  int64_t size = (int64_t)(k->p->n - size_at - sizeof size);
  memcpy(k->p->bytes + size_at, &size, sizeof size);
  write_whole(k, ar.nups);
  Place at = {place, "", ""};
  char kind[160];
  snprintf(kind, sizeof kind, "the function at %.100s:%d, upvalue ", ar.short_src, ar.linedefined);
  at.kind = kind;
  for (int i = 1; i <= ar.nups; i++) {
    const char *name = lua_getupvalue(L, index, i);
    snprintf(at.name, sizeof at.name, "'%.50s'", name ? name : "?");
    write_upvalue(k, index, self, i, &at);
    lua_pop(L, 1);
  }
}

static void write_userdata(Packer *k, int index, const Place *place) {
  lua_State *L = k->L;
  if (tli_to_box(L, k->S, index)) {
    write_tensor(k, index, place);
    return;
  }
  const char *device = tli_to_device_name(L, index);
  if (device) {
    number(k, index);
    write_tag(k, DEVICE);
    lua_pushstring(L, device);
    write_string(k, -1);
    lua_pop(L, 1);
    return;
  }
  if (tli_is_sparse(L, index)) {
    number(k, index);
    write_tag(k, SPARSE);
    lua_getiuservalue(L, index, 1);
    write_value(k, lua_gettop(L), place);
    lua_pop(L, 1);
    return;
  }
  tli_Generator *g = tli_to_generator(L, index);
  if (g == NULL) {
    const char *name =
        luaL_getmetafield(L, index, "__name") == LUA_TSTRING ? lua_tostring(L, -1) : "userdata";
    char why[128];
    snprintf(why, sizeof why, "a %.60s, which cannot travel to another thread",
             strcmp(name, LUA_FILEHANDLE) == 0 ? "file" : name);
    refuse(k, place, why);
  }
  number(k, index);
  write_tag(k, GENERATOR);
  write_whole(k, (int64_t)g->seed);
  write_whole(k, (int64_t)g->offset);
  lua_pushstring(L, tli_device_str(tli_generator_device(L, index)));
  write_string(k, -1);
  lua_pop(L, 1);
}

/* Returns whether a value may have a known name. In parcels after the first, a table without a
** metatable is data. There may be very many such tables, so they are not looked up. */
static bool may_be_known(Packer *k, int index) {
  if (k->first_one || lua_type(k->L, index) != LUA_TTABLE) return true;
  if (!lua_getmetatable(k->L, index)) return false;
  lua_pop(k->L, 1);
  return true;
}

static void write_object(Packer *k, int index, const Place *place) {
  int type = lua_type(k->L, index);
  if (written_before(k, index)) return;
  if (++k->depth > DEEPEST) refuse(k, place, "nested too deeply");
  luaL_checkstack(k->L, 20, k->what);
  if (type == LUA_TUSERDATA) {
    write_userdata(k, index, place);
  } else if (type == LUA_TTABLE || type == LUA_TFUNCTION) {
    if (may_be_known(k, index) && write_known(k, index)) {
      /* a known value is written as its name alone */
    } else if (type == LUA_TTABLE) {
      write_table(k, index, place);
    } else {
      write_function(k, index, place);
    }
  } else {
    char why[96];
    snprintf(why, sizeof why, "a %s, which cannot travel to another thread",
             type == LUA_TTHREAD ? "coroutine" : "pointer of C");
    refuse(k, place, why);
  }
  k->depth--;
}

static void write_value(Packer *k, int index, const Place *place) {
  lua_State *L = k->L;
  switch (lua_type(L, index)) {
  case LUA_TNIL: write_tag(k, NIL); break;
  case LUA_TBOOLEAN: write_tag(k, lua_toboolean(L, index) ? TRUE_ : FALSE_); break;
  case LUA_TNUMBER:
    if (lua_isinteger(L, index)) {
      write_tag(k, INTEGER);
      write_whole(k, lua_tointeger(L, index));
    } else {
      lua_Number x = lua_tonumber(L, index);
      write_tag(k, FLOAT);
      write_bytes(k, &x, sizeof x);
    }
    break;
  case LUA_TSTRING:
    write_tag(k, STRING);
    write_string(k, index);
    break;
  default: write_object(k, index, place);
  }
}

/* ---- globals ---- */

/* Returns whether bytecode in the parcel may refer to a global. Searches for the global's name in
** the form in which Lua 5.4 writes strings, after the string's length. If only a local variable has
** this name, the global is packed needlessly. */
static bool named(const tli_Parcel *p, const char *name, size_t n) {
  const char *at = p->bytes, *end = p->bytes + p->n;
  while (n > 0 && (at = (const char *)memchr(at, name[0], (size_t)(end - at))) != NULL) {
    if ((size_t)(end - at) < n) return false;
    bool length = at > p->bytes;
#if LUA_VERSION_NUM == 504
    length = length && (n >= 126 || (unsigned char)at[-1] == (0x80 | (n + 1)));
#endif
    if (length && memcmp(at, name, n) == 0) return true;
    at++;
  }
  return false;
}

/* Writes a global in protected mode. The arguments are (packer, name, value), followed by the
** packer's four tables. */
static int write_global(lua_State *L) {
  Packer *k = (Packer *)lua_touserdata(L, 1);
  Place at = {NULL, "the global ", ""};
  name_key(L, 2, &at);
  /* the arguments 4 to 7 are the tables of the packer */
  Packer inner = *k;
  inner.L = L;
  inner.classes = k->classes ? 4 : 0;
  inner.numbers = 5;
  inner.upvalues = 6;
  inner.known = 7;
  write_value(&inner, 3, &at);
  k->count = inner.count;
  lua_settop(L, 7);
  return 1; /* returns the table of known values, which `write_value` may have made */
}

/* Returns whether the Lua value at a stack index is a number greater than `count`, that is,
** assigned after the first `count` numbers. */
static bool is_late(lua_State *L, int index, int count) {
  return lua_isinteger(L, index) && lua_tointeger(L, index) > count;
}

/* Removes the classes with numbers above `count`. The table has two entries for each class: its
** number as key with the class as value, and the reverse. */
static void forget_classes(lua_State *L, int classes, int count) {
  lua_pushnil(L);
  while (lua_next(L, classes)) {
    bool late = is_late(L, -1, count) || is_late(L, -2, count);
    lua_pop(L, 1);
    if (!late) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, classes);
  }
}

/* Removes the assigned numbers above `count`, because packing a global has failed. */
static void forget(Packer *k, int count) {
  lua_State *L = k->L;
  if (k->classes) forget_classes(L, k->classes, count);
  lua_pushnil(L);
  while (lua_next(L, k->numbers)) {
    bool late = lua_tointeger(L, -1) > count;
    lua_pop(L, 1);
    if (!late) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, k->numbers);
  }
  lua_pushnil(L);
  while (lua_next(L, k->upvalues)) {
    lua_rawgeti(L, -1, 1);
    bool late = lua_tointeger(L, -1) > count;
    lua_pop(L, 2);
    if (!late) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, k->upvalues);
  }
}

/* Tries to write a global. The name and the value of the global are on top of the stack and stay
** there. */
static void try_global(Packer *k) {
  lua_State *L = k->L;
  int value = lua_gettop(L), name = value - 1;
  write_tag(k, STRING);
  write_string(k, name);
  int count = k->count, ntensors = k->p->ntensors;
  size_t n = k->p->n;
  lua_pushcfunction(L, write_global);
  lua_pushlightuserdata(L, k);
  lua_pushvalue(L, name);
  lua_pushvalue(L, value);
  if (k->classes)
    lua_pushvalue(L, k->classes);
  else
    lua_pushnil(L);
  lua_pushvalue(L, k->numbers);
  lua_pushvalue(L, k->upvalues);
  lua_pushvalue(L, k->known);
  if (lua_pcall(L, 7, 1, 0) == LUA_OK) {
    lua_replace(L, k->known);
    return;
  }
  k->count = count;
  k->p->n = n;
  while (k->p->ntensors > ntensors) tli_release(k->p->tensors[--k->p->ntensors]);
  forget(k, count);
  write_tag(k, MISSING);
  luaL_tolstring(L, -1, NULL);
  write_string(k, -1);
  lua_pop(L, 2);
}

/* Writes all globals that functions in the parcel name, including functions that are themselves
** written as globals. */
static void write_globals(Packer *k) {
  lua_State *L = k->L;
  lua_newtable(L); /* a table of the names that were written already */
  int done = lua_gettop(L);
  lua_pushglobaltable(L);
  int globals = lua_gettop(L);
  for (bool more = true; more;) {
    more = false;
    lua_pushnil(L);
    while (lua_next(L, globals)) {
      size_t n;
      bool is_name = lua_type(L, -2) == LUA_TSTRING;
      const char *name = is_name ? lua_tolstring(L, -2, &n) : NULL;
      lua_pushvalue(L, -2);
      bool old = name == NULL || lua_rawget(L, done) != LUA_TNIL;
      lua_settop(L, globals + 2);
      if (!old && named(k->p, name, n)) {
        lua_pushvalue(L, -2);
        lua_pushboolean(L, 1);
        lua_rawset(L, done);
        try_global(k);
        more = true;
      }
      lua_pop(L, 1);
    }
  }
  write_tag(k, END);
  lua_settop(L, done - 1);
}

tli_Parcel *tli_parcel_pack(lua_State *L, const char *what, int first, int classes,
                            bool first_one) {
  int last = lua_gettop(L);
  luaL_checkstack(L, 20, what);
  tli_Parcel **holder = push_holder(L);
  Packer k = {L, tli_state_find(L), *holder, what, first_one, classes, 0, 0, 0, 0, 0};
  lua_newtable(L);
  k.numbers = lua_gettop(L);
  lua_newtable(L);
  k.upvalues = lua_gettop(L);
  lua_pushnil(L);
  k.known = lua_gettop(L);
  (*holder)->nvalues = last - first + 1;
  for (int i = first; i <= last; i++) write_value(&k, i, NULL);
  if (first_one) write_globals(&k);
  tli_Parcel *parcel = *holder;
  *holder = NULL;
  lua_settop(L, first - 1);
  return parcel;
}
