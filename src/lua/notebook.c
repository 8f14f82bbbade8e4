/*
** notebook.c - system functions for rocks/notebook: sockets of libzmq, which is loaded on first
** use, captured output, and signatures of messages. The functions are internal, not for users.
**
** All threads of the process share one context of libzmq, so that they can exchange messages. A
** socket belongs to the thread that has made it.
*/
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/platform/output.h"
#include "core/platform/optional.h"
#include "core/platform/platform.h"
#include "dist/sha256.h"
#include "lua/tensor/value.h"

#define SOCKET "torch.MessageSocket"

/* The constants and structs of zmq.h, whose binary interface is stable. */
enum { OPTION_MORE = 13, FLAG_DONTWAIT = 1, FLAG_MORE = 2, POLL_IN = 1 };

typedef struct Frame { /* zmq_msg_t */
  _Alignas(8) unsigned char opaque[64];
} Frame;

typedef struct PollItem { /* zmq_pollitem_t */
  void *socket;
#ifdef _WIN32
  uintptr_t fd;
#else
  int fd;
#endif
  short events, revents;
} PollItem;

static struct {
  tli_Once once;
  bool there;
  atomic_int open; /* number of open sockets */
  void *context;   /* owned */
  void *(*new_context)(void);
  int (*end_context)(void *);
  void *(*socket)(void *, int type);
  int (*close)(void *);
  int (*set)(void *, int option, const void *, size_t);
  int (*get)(void *, int option, void *, size_t *);
  int (*bind)(void *, const char *), (*connect)(void *, const char *);
  int (*send)(void *, const void *, size_t, int flags);
  int (*begin)(Frame *), (*receive)(Frame *, void *, int flags), (*end)(Frame *);
  void *(*data)(Frame *);
  size_t (*size)(const Frame *);
  int (*poll)(PollItem *, int n, long ms);
  int (*number)(void);
  const char *(*error)(int);
} zmq = {.once = TLI_ONCE_INIT};

static void open_library(void) {
  const struct {
    const char *name;
    void *function;
  } list[] = {{"zmq_ctx_new", &zmq.new_context}, {"zmq_ctx_term", &zmq.end_context},
              {"zmq_socket", &zmq.socket},       {"zmq_close", &zmq.close},
              {"zmq_setsockopt", &zmq.set},      {"zmq_getsockopt", &zmq.get},
              {"zmq_bind", &zmq.bind},           {"zmq_connect", &zmq.connect},
              {"zmq_send", &zmq.send},           {"zmq_msg_init", &zmq.begin},
              {"zmq_msg_recv", &zmq.receive},    {"zmq_msg_close", &zmq.end},
              {"zmq_msg_data", &zmq.data},       {"zmq_msg_size", &zmq.size},
              {"zmq_poll", &zmq.poll},           {"zmq_errno", &zmq.number},
              {"zmq_strerror", &zmq.error}};
  void *library = tli_optional_open(TLI_OPTIONAL_ZMQ, NULL);
  if (library == NULL) return;
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    void *symbol = tli_library_symbol(library, list[i].name);
    if (symbol == NULL) return;
    memcpy(list[i].function, &symbol, sizeof symbol);
  }
  zmq.context = zmq.new_context();
  zmq.there = zmq.context != NULL;
}

/* Returns nil and the message of libzmq's last error to Lua. */
static int failed(lua_State *L) {
  lua_pushnil(L);
  lua_pushstring(L, zmq.error(zmq.number()));
  return 2;
}

static int done(lua_State *L, int status) {
  if (status < 0) return failed(L);
  lua_pushboolean(L, 1);
  return 1;
}

static void *check_socket(lua_State *L, int index) {
  void *socket = *(void **)luaL_checkudata(L, index, SOCKET);
  if (socket == NULL) tli_error(L, "socket: the socket is closed");
  return socket;
}

/* socket(type) returns a socket, or nil and a message. */
static int kernel_socket(lua_State *L) {
  int type = (int)luaL_checkinteger(L, 1);
  tli_once(&zmq.once, open_library);
  if (!zmq.there) {
    lua_pushnil(L);
    lua_pushliteral(L, "needs libzmq, which was not found; see `tlua doctor`");
    return 2;
  }
  void **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  luaL_setmetatable(L, SOCKET);
  *box = zmq.socket(zmq.context, type);
  if (*box == NULL) return failed(L);
  atomic_fetch_add(&zmq.open, 1);
  return 1;
}

static int socket_close(lua_State *L) {
  void **box = luaL_checkudata(L, 1, SOCKET);
  if (*box) {
    zmq.close(*box);
    atomic_fetch_sub(&zmq.open, 1);
  }
  *box = NULL;
  return 0;
}

/* set(option, value) sets an option to an integer (a C int) or a string. */
static int socket_set(lua_State *L) {
  void *socket = check_socket(L, 1);
  int option = (int)luaL_checkinteger(L, 2), number;
  size_t size = sizeof number;
  if (!lua_isinteger(L, 3)) {
    const char *text = luaL_checklstring(L, 3, &size);
    return done(L, zmq.set(socket, option, text, size));
  }
  number = (int)lua_tointeger(L, 3);
  return done(L, zmq.set(socket, option, &number, size));
}

/* get(option) returns the value of an option whose values are strings. */
static int socket_get(lua_State *L) {
  char text[512];
  size_t size = sizeof text;
  if (zmq.get(check_socket(L, 1), (int)luaL_checkinteger(L, 2), text, &size) < 0) return failed(L);
  lua_pushstring(L, text);
  return 1;
}

static int socket_bind(lua_State *L) {
  return done(L, zmq.bind(check_socket(L, 1), luaL_checkstring(L, 2)));
}

static int socket_connect(lua_State *L) {
  return done(L, zmq.connect(check_socket(L, 1), luaL_checkstring(L, 2)));
}

/* send(frames) sends a list of strings as one message. */
static int socket_send(lua_State *L) {
  void *socket = check_socket(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  int n = (int)lua_rawlen(L, 2);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    if (lua_type(L, -1) != LUA_TSTRING) return tli_error(L, "socket: expected strings");
    lua_pop(L, 1);
  }
  for (int i = 1; i <= n; i++) {
    size_t size;
    lua_rawgeti(L, 2, i);
    const char *text = lua_tolstring(L, -1, &size);
    int status;
    do status = zmq.send(socket, text, size, i < n ? FLAG_MORE : 0);
    while (status < 0 && zmq.number() == EINTR);
    if (status < 0) return failed(L);
    lua_pop(L, 1);
  }
  return done(L, 0);
}

/* take() returns the frames of the next message as a list of strings, or nil if there is none. */
static int socket_take(lua_State *L) {
  void *socket = check_socket(L, 1);
  lua_newtable(L);
  int more = 1;
  for (lua_Integer i = 1; more; i++) {
    Frame frame;
    zmq.begin(&frame);
    int status;
    do status = zmq.receive(&frame, socket, FLAG_DONTWAIT);
    while (status < 0 && zmq.number() == EINTR);
    if (status < 0) {
      zmq.end(&frame);
      return i > 1 ? failed(L) : 0;
    }
    lua_pushlstring(L, zmq.data(&frame), zmq.size(&frame));
    zmq.end(&frame);
    lua_rawseti(L, 2, i);
    size_t size = sizeof more;
    if (zmq.get(socket, OPTION_MORE, &more, &size) < 0) return failed(L);
  }
  return 1;
}

/* poll(list, ms) waits until one of the sockets and file descriptors in the list can be read, a
** signal arrives, or `ms` milliseconds have passed; -1 means no time limit. Returns a list of
** booleans, which tell for each entry whether it can be read. */
static int kernel_poll(lua_State *L) {
  enum { MOST = 16 };
  PollItem items[MOST];
  luaL_checktype(L, 1, LUA_TTABLE);
  int n = (int)lua_rawlen(L, 1);
  if (n < 1 || n > MOST || !zmq.there) return tli_error(L, "poll: expected 1 to %d sockets", MOST);
  for (int i = 0; i < n; i++) {
    items[i] = (PollItem){NULL, 0, POLL_IN, 0};
    lua_rawgeti(L, 1, i + 1);
    if (lua_isinteger(L, -1))
      items[i].fd = (int)lua_tointeger(L, -1);
    else
      items[i].socket = check_socket(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  zmq.poll(items, n, (long)luaL_optinteger(L, 2, -1));
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushboolean(L, items[i].revents != 0);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* finish() waits until the messages of closed sockets are sent, and ends the context. Raises an
** error if a socket is still open, since libzmq would wait until the socket is closed. */
static int kernel_finish(lua_State *L) {
  int open = atomic_load(&zmq.open);
  if (open > 0)
    return tli_error(L, "finish: expected that all sockets are closed, %d are open", open);
  if (zmq.there) zmq.end_context(zmq.context);
  zmq.there = false;
  return 0;
}

/* hmac(key, text) returns the HMAC-SHA256 in hexadecimal digits. */
static int kernel_hmac(lua_State *L) {
  size_t key_size, size;
  const char *key = luaL_checklstring(L, 1, &key_size), *text = luaL_checklstring(L, 2, &size);
  unsigned char out[TLI_SHA256_BYTES];
  char digits[2 * TLI_SHA256_BYTES];
  tli_hmac_sha256(key, key_size, text, size, out);
  for (int i = 0; i < TLI_SHA256_BYTES; i++) {
    digits[2 * i] = "0123456789abcdef"[out[i] >> 4];
    digits[2 * i + 1] = "0123456789abcdef"[out[i] & 15];
  }
  lua_pushlstring(L, digits, sizeof digits);
  return 1;
}

static int check_descriptor(lua_State *L) {
  lua_Integer fd = luaL_checkinteger(L, 1);
  if (fd != 1 && fd != 2) tli_error(L, "capture: expected 1 or 2");
  return (int)fd;
}

/* capture(fd, file?) redirects stdout (1) or stderr (2) to a file or a new pipe. Returns two
** descriptors: one of the previous output, which release() takes, and the pipe's reading end, for
** poll() and read(). On failure returns nil and a message. */
static int kernel_capture(lua_State *L) {
  int fd = check_descriptor(L), end;
  luaL_Stream *stream = lua_isnoneornil(L, 2) ? NULL : luaL_checkudata(L, 2, LUA_FILEHANDLE);
  int previous = tli_output_capture(fd, stream ? stream->f : NULL, &end);
  if (previous < 0) {
    lua_pushnil(L);
    lua_pushstring(L, tl_error());
    return 2;
  }
  lua_pushinteger(L, previous);
  lua_pushinteger(L, end);
  return 2;
}

static int kernel_release(lua_State *L) {
  int fd = check_descriptor(L);
  fflush(fd == 1 ? stdout : stderr);
  tli_output_release(fd, (int)luaL_checkinteger(L, 2));
  return 0;
}

/* read(end) returns the available bytes of a pipe, at most 64 KB. */
static int kernel_read(lua_State *L) {
  int end = (int)luaL_checkinteger(L, 1);
  luaL_Buffer b;
  char *room = luaL_buffinitsize(L, &b, 1 << 16);
  luaL_pushresultsize(&b, (size_t)tli_output_take(end, room, 1 << 16));
  return 1;
}

/* put(fd, text) writes to a descriptor. */
static int kernel_put(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size);
  tli_output_put((int)luaL_checkinteger(L, 1), text, size);
  return 0;
}

/* interrupt() interrupts the program, as Ctrl-C does. */
static int kernel_interrupt(lua_State *L) {
  (void)L;
  tli_output_interrupt();
  return 0;
}

void tli_open_notebook(lua_State *L) {
  static const luaL_Reg functions[] = {{"socket", kernel_socket},   {"poll", kernel_poll},
                                       {"finish", kernel_finish},   {"hmac", kernel_hmac},
                                       {"put", kernel_put},         {"read", kernel_read},
                                       {"capture", kernel_capture}, {"interrupt", kernel_interrupt},
                                       {"release", kernel_release}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"set", socket_set},       {"get", socket_get},
                                     {"bind", socket_bind},     {"connect", socket_connect},
                                     {"send", socket_send},     {"take", socket_take},
                                     {"close", socket_close},   {"__gc", socket_close},
                                     {"__close", socket_close}, {NULL, NULL}};
  luaL_newmetatable(L, SOCKET);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  tli_set_functions(L, methods);
  lua_pop(L, 1);
  lua_newtable(L);
  tli_set_functions(L, functions);
  lua_setfield(L, -2, "_kernel");
}
