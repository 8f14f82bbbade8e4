/*
** repl.c - implements the interactive mode, which reads chunks, runs them, and shows their values.
**
** The module `tlua.repl` compiles chunks, displays values and completes words; this file has the
** loop. No error ends the session, because all code that may fail is called in protected mode.
*/
#define _POSIX_C_SOURCE 200809L /* strdup */

#include "main/repl.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "main/edit.h"
#include "main/globals.h"
#include "main/interrupt.h"
#include "main/script.h"
#include "main/terminal.h"

/* The state of the session, set while the loop runs. The completion callback reads this variable,
** since the callback gets no context argument. */
static lua_State *session; /* borrowed */

/* The addresses of these variables are keys of the registry. The value of module_key is the table
** of the module `tlua.repl`; the value of chunk_key is the text of the last chunk. */
static const char module_key = 0, chunk_key = 0;

/* ---- the module in Lua ------------------------------------------------------- */

static int open_module(lua_State *L) {
  tli_globals_resolve(L);
  tli_globals_require(L, "tlua.repl");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &module_key);
  return 0;
}

/* Pushes a function of the module `tlua.repl`. If the module is missing, pushes nothing and returns
** false. */
static bool push_function(lua_State *L, const char *name) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &module_key) == LUA_TTABLE) {
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    return true;
  }
  lua_pop(L, 1);
  return false;
}

/* ---- completion ----------------------------------------------------------------- */

/* Returns the list of words for a tli_EditComplete, as a light userdata. The arguments are (text,
** before). The list is made with malloc, so no error may be raised after that. */
static int list_words(lua_State *L) {
  if (!push_function(L, "complete")) return 0;
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  if (!lua_istable(L, 1)) return 0;
  size_t n = (size_t)lua_rawlen(L, 1);
  luaL_checkstack(L, 2, NULL);
  char **words = n > 0 ? malloc((n + 1) * sizeof *words) : NULL;
  if (words == NULL) return 0;
  size_t filled = 0;
  for (size_t i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i);
    if (lua_type(L, -1) == LUA_TSTRING && (words[filled] = strdup(lua_tostring(L, -1)))) filled++;
    lua_pop(L, 1);
  }
  words[filled] = NULL;
  lua_pushlightuserdata(L, words);
  return 1;
}

static char **complete(const char *text, const char *before) {
  lua_State *L = session;
  char **words = NULL;
  lua_pushcfunction(L, list_words);
  lua_pushstring(L, text);
  lua_pushstring(L, before); /* pushes nil if `before` is NULL */
  if (lua_pcall(L, 2, 1, 0) == LUA_OK) words = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (words && words[0] == NULL) {
    free(words);
    words = NULL;
  }
  return words;
}

/* ---- reading ---------------------------------------------------------------------- */

/* Returns the text of the prompt. The arguments are (name of the global that may set the prompt,
** default text). */
static int prompt_text(lua_State *L) {
  lua_getglobal(L, lua_tostring(L, 1));
  if (lua_isnil(L, -1)) lua_pop(L, 1);
  luaL_tolstring(L, -1, NULL);
  return 1;
}

/* Pushes the prompt, which the globals _PROMPT and _PROMPT2 may set. */
static const char *push_prompt(lua_State *L, bool first) {
  lua_pushcfunction(L, prompt_text);
  lua_pushstring(L, first ? "_PROMPT" : "_PROMPT2");
  lua_pushstring(L, first ? "> " : ">> ");
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
    lua_pop(L, 1);
    lua_pushstring(L, first ? "> " : ">> ");
  }
  return lua_tostring(L, -1);
}

typedef enum Read { READ_EXPRESSION, READ_CHUNK, READ_ERROR, READ_NOTHING, READ_END } Read;

/* Compiles the text at index 1 and pushes the function, or the error message. Sets *more to whether
** the text is incomplete. */
static Read compile(lua_State *L, bool *more) {
  *more = false;
  if (!push_function(L, "compile")) {
    lua_pushliteral(L, "the module tlua.repl is missing");
    return READ_ERROR;
  }
  lua_pushvalue(L, 1);
  if (lua_pcall(L, 1, 3, 0) != LUA_OK) return READ_ERROR;
  *more = lua_toboolean(L, -1);
  const char *kind = lua_tostring(L, -2);
  Read what = kind == NULL ? READ_ERROR : *kind == 'e' ? READ_EXPRESSION : READ_CHUNK;
  lua_pop(L, 2);
  return what;
}

/* Adds a chunk to the history. The lines of a chunk are joined to one line, unless the chunk
** contains comments or long strings: joining lines would change their meaning. */
static void remember(const char *chunk) {
  static char *last; /* the last entry (owned), which lives as long as the process */
  if (chunk[strspn(chunk, " \t\n")] == '\0' || (last && strcmp(last, chunk) == 0)) return;
  free(last);
  last = strdup(chunk);
  char *copy = strdup(chunk);
  if (copy == NULL) return;
  bool joins = strstr(chunk, "--") == NULL && strstr(chunk, "[[") == NULL &&
               strstr(chunk, "[=") == NULL && strstr(chunk, "\\\n") == NULL;
  char *line = copy;
  for (char *end = strchr(line, '\n'); end; end = strchr(end + 1, '\n')) {
    *end = joins ? ' ' : '\0';
    if (joins) continue;
    tli_edit_remember(line);
    line = end + 1;
  }
  if (*line != '\0') tli_edit_remember(line);
  free(copy);
}

/* Reads one line. The line is the first of a chunk if `first` is true; otherwise it continues the
** text at index 1. */
static Read read_line(lua_State *L, bool first) {
  char *line;
  tli_EditResult result = tli_edit_read(push_prompt(L, first), &line);
  lua_pop(L, 1); /* this call pops the prompt */
  if (result == TLI_EDIT_INTERRUPTED) return READ_NOTHING;
  if (result == TLI_EDIT_END) return READ_END;
  if (first)
    lua_pushstring(L, line);
  else
    lua_pushfstring(L, "%s\n%s", lua_tostring(L, 1), line);
  free(line);
  if (!first) lua_replace(L, 1);
  return READ_CHUNK;
}

/* Reads lines until they make a complete chunk. Leaves one value on the stack: the compiled
** function for READ_EXPRESSION and READ_CHUNK, the message for READ_ERROR, and an unspecified value
** for other results. */
static Read read_chunk(lua_State *L) {
  bool more;
  Read read = read_line(L, true);
  if (read != READ_CHUNK) return read;
  Read what = compile(L, &more);
  while (more) {
    read = read_line(L, false);
    if (read == READ_NOTHING) return read;
    /* the chunk cannot be completed, and the message on the stack says that it is incomplete */
    if (read == READ_END) break;
    lua_settop(L, 1);
    what = compile(L, &more);
  }
  remember(lua_tostring(L, 1));
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &chunk_key);
  lua_remove(L, 1);
  return what;
}

/* ---- showing ------------------------------------------------------------------------ */

/* Calls the global `print` with the arguments on the stack. */
static int print(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  lua_call(L, n, 0);
  return 0;
}

/* Prints all values on the stack with the module's function that shows values. */
static void show(lua_State *L) {
  int n = lua_gettop(L);
  if (n == 0) return;
  if (push_function(L, "show")) {
    lua_insert(L, 1);
    lua_pushinteger(L, tli_terminal_width());
    lua_insert(L, 2);
    if (!tli_script_report(L, tli_script_call(L, n + 1, 1))) return;
    n = 1;
  }
  lua_pushcfunction(L, print);
  lua_insert(L, 1);
  if (tli_interrupt_call(L, n, 0, 0) == LUA_OK) return;
  const char *message = lua_tostring(L, -1);
  lua_pushfstring(L, "error calling 'print' (%s)", message ? message : luaL_typename(L, -1));
  tli_script_complain(lua_tostring(L, -1));
}

/* A signal handler that does nothing. It is installed while the session neither reads nor runs a
** chunk, when Ctrl-C would otherwise end the process. SIG_IGN cannot be used, since child processes
** would inherit it. */
static void let_pass(void) {}

/* Replaces the error message on top of the stack by the longer message that the module `tlua.repl`
** makes of it. */
static void explain(lua_State *L) {
  int message = lua_gettop(L);
  if (lua_type(L, message) != LUA_TSTRING || !push_function(L, "explain")) return;
  lua_pushvalue(L, message);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &chunk_key);
  if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING)
    lua_replace(L, message);
  else
    lua_pop(L, 1);
}

/* Calls a function of the module `tlua.repl` with a boolean. The function returns nothing. */
static void tell(lua_State *L, const char *function, bool argument) {
  if (!push_function(L, function)) return;
  lua_pushboolean(L, argument);
  tli_script_report(L, lua_pcall(L, 1, 0, 0));
}

/* Runs the chunk on the stack, which holds no other value. */
static void run(lua_State *L, Read read) {
  tell(L, "begin_line", true);
  int status = tli_script_call(L, 0, LUA_MULTRET);
  bool struck = tli_interrupt_struck();
  if (status != LUA_OK) explain(L);
  if (tli_script_report(L, status)) {
    if (read == READ_EXPRESSION) lua_remove(L, 1);
    show(L);
    struck = struck || tli_interrupt_struck();
  }
  lua_settop(L, 0);
  tell(L, "end_line", struck);
}

static void loop(lua_State *L) {
  for (;;) {
    Read read = read_chunk(L);
    if (read == READ_END) return;
    if (read == READ_ERROR) tli_script_report(L, LUA_ERRSYNTAX);
    if (read == READ_EXPRESSION || read == READ_CHUNK) run(L, read);
    lua_settop(L, 0);
  }
}

void tli_repl_run(lua_State *L) {
  tli_InterruptFn before = tli_terminal_catch(SIGINT, let_pass);
  lua_settop(L, 0);
  tli_script_set_name(NULL); /* in interactive use error messages need no program name */
  session = L;
  lua_pushcfunction(L, open_module);
  tli_script_report(L, tli_script_call(L, 0, 0));
  tli_edit_open(complete);
  loop(L);
  putchar('\n');
  fflush(stdout);
  session = NULL;
  tli_terminal_catch(SIGINT, before);
}
