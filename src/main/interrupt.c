/*
** interrupt.c - while Lua code runs, turns two events into Lua errors: SIGINT, and a read from a
** mapped file that was truncated. SIGTERM still ends the process, but only after a cleanup function
** has run.
**
** Only this command installs the handlers, and only around the code that it runs; a program that
** embeds the library keeps its own signal handling. The handler must not raise an error itself.
** Instead, the handler asks the engine to stop the running operator (tl_interrupt), and sets a
** debug hook. The hook raises the error at the next Lua instruction, unless the stopped operator
** has already raised it. So one Ctrl-C causes one error, and code that catches the error continues
** undisturbed.
*/
#include "main/interrupt.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "core/platform/platform.h"
#include "core/platform/parallel.h"
#include "main/truncated.h"
#include "main/terminal.h"
#include "tlua.h"

/* The main Lua state. The SIGINT handler reads this variable, which is set before the handler is
** installed. */
static lua_State *main_state; /* borrowed */

/* The number of SIGINTs since the last one that had an effect. */
static volatile sig_atomic_t presses;

/* Whether SIGINT has arrived since the last call of tli_interrupt_call began. */
static volatile sig_atomic_t struck;

/* The number of SIGTERMs that have arrived, and the cleanup function that SIGTERM calls. */
static volatile sig_atomic_t terminations;
static void (*at_end)(lua_State *L);
static volatile sig_atomic_t ending;

/* Whether a truncated file was read and the Lua error that reports the read is still to be
** raised. */
static volatile sig_atomic_t truncated;

static void take_back(void) {
  tl_interrupt_clear();
  /* also clears the engine's last error, which might otherwise be taken for the effect of a later
  ** SIGINT */
  tli_error_clear();
}

static void raise_here(lua_State *L, const char *message) {
  luaL_where(L, 0);
  /* adds a position to the message, because the running function is a C function, which has no line
  ** number */
  if (lua_rawlen(L, -1) == 0) luaL_where(L, 1);
  lua_pushstring(L, message);
  lua_concat(L, 2);
  lua_error(L);
}

void tli_interrupt_at_end(void (*fn)(lua_State *L)) { at_end = fn; }

void tli_interrupt_end(lua_State *L) {
  if (at_end == NULL || ending) return;
  ending = 1;
  take_back();
  at_end(L);
  at_end = NULL;
  if (terminations) tli_terminal_die(SIGTERM);
}

static void raise_interrupted(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (terminations) tli_interrupt_end(L);
  if (truncated) {
    truncated = 0;
    const char *path = tli_file_shrunk_path();
    raise_here(L,
               lua_pushfstring(L,
                               "a file has become shorter while it was mapped%s%s: what was read "
                               "behind its end is 0; {mmap = false} reads files at once",
                               *path ? ", " : "", path));
  }
  presses = 0;
  tli_terminal_later(NULL);
  bool pending = tli_interrupted();
  /* whether the stopped operator has already raised the error */
  bool told = tl_error_kind() == TL_EINTERRUPT;
  take_back();
  if (!pending || told) return;
  raise_here(L, "interrupted!");
}

/* Makes a Lua thread raise the error at its next instruction. lua_sethook is the only Lua function
** that a signal handler may call. */
static void stop_state(lua_State *L) {
  int events = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
  lua_sethook(L, raise_interrupted, events, 1);
}

/* Returns the coroutine that `L` is resuming, or NULL. `L` is then inside a call of
** coroutine.resume, whose first argument is the coroutine, or inside a function from
** coroutine.wrap, whose upvalue is the coroutine. */
static lua_State *resumed_by(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 0, &ar) || !lua_getinfo(L, "S", &ar) || *ar.what != 'C') return NULL;
  lua_State *co = lua_tothread(L, 1);
  return co ? co : lua_tothread(L, lua_upvalueindex(1));
}

/* Sets the hook in all coroutines that are running, because a hook belongs to one coroutine and the
** first signal sets only the main thread's hook. This function is called if the main thread's hook
** has had no effect after a tenth of a second, or by the time of the next signal. Then the main
** thread is inside a C function, so a signal handler can inspect its stack safely. */
static void stop_coroutines(lua_State *L) {
  enum { MAX_NESTED = 200 }; /* LUAI_MAXCCALLS */
  for (int i = 0; i < MAX_NESTED; i++) {
    lua_State *co = resumed_by(L);
    if (co == NULL || co == L) return;
    stop_state(co);
    L = co;
  }
}

static void look_again(void) {
  if (presses || (!ending && terminations)) stop_coroutines(main_state);
}

static void on_interrupt(void) {
  presses = presses + 1;
  struck = 1;
  if (presses > 2) { /* two signals have had no effect, so the third ends the process */
    tli_terminal_die(SIGINT);
    return;
  }
  tl_interrupt();
  stop_state(main_state);
  if (presses == 1) tli_terminal_later(look_again);
  if (presses == 2) stop_coroutines(main_state);
}

static void on_termination(void) {
  terminations = terminations + 1;
  if (terminations > 2) tli_terminal_die(SIGTERM);
  if (ending || terminations > 2) return;
  tl_interrupt();
  stop_state(main_state);
  if (terminations == 1) tli_terminal_later(look_again);
  if (terminations == 2) stop_coroutines(main_state);
}

/* Reports a read beyond the end of a truncated file. `here` tells whether this thread made the
** read. If so, the thread is inside a C function, so this function can inspect the stack of each
** coroutine at once. */
static void on_truncated(bool here) {
  truncated = 1;
  stop_state(main_state);
  if (here) stop_coroutines(main_state);
}

bool tli_interrupt_struck(void) { return struck; }

int tli_interrupt_call(lua_State *L, int nargs, int nresults, int handler) {
  main_state = L;
  presses = 0;
  struck = 0;
  truncated = 0;
  take_back();
  tli_InterruptFn before = tli_terminal_catch(SIGINT, on_interrupt), ends_before = NULL;
  if (at_end) ends_before = tli_terminal_catch(SIGTERM, on_termination);
  tli_TruncatedFn truncated_before = tli_truncated_catch(on_truncated);
  int status = lua_pcall(L, nargs, nresults, handler);
  tli_truncated_catch(truncated_before);
  tli_terminal_catch(SIGTERM, ends_before);
  tli_terminal_catch(SIGINT, before);
  presses = 0;
  tli_terminal_later(NULL);
  if (lua_gethook(L) == raise_interrupted) lua_sethook(L, NULL, 0, 0);
  take_back();
  if (terminations) tli_interrupt_end(L);
  return status;
}
