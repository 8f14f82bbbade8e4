/*
** edit_posix.c - line editing with a library that is loaded at run time.
**
** libedit and GNU readline have nearly the same interface; comments below mark the few differences.
** Neither library is needed to build or to run. Lines are read without editing if both are missing
** or stdin is not a terminal.
**
** Signals: the libraries' own handlers are turned off. All input from the terminal passes through
** read_byte. SIGINT, SIGWINCH and SIGCONT are unblocked only while read_byte waits, and their
** handlers set flags. So signals interrupt no other code, no signal is lost, and no longjmp skips
** stack frames of a library. On Ctrl-C read_byte ends the line, and the text of that line is
** discarded.
*/
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L

#include "main/edit.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
#include <wchar.h>

#include "core/platform/optional.h"
#include "core/platform/platform.h"
#include "main/typed_lines.h"

/* Characters that separate words for completion. Dots, colons and brackets are not among them, so
** that a whole path such as model.layers[1]:fo is one word. */
static const char word_breaks[] = " \t\n\"'`+-*/%^#&|~<>=(){},;\\?!@$";

typedef char **(*Attempt)(const char *text, int start, int end);

/* Functions and variables of the editing library. A pointer may be NULL where its comment says
** so. */
static struct {
  const char *file; /* file name of the library; NULL if there is none */
  bool is_libedit;
  char *(*readline)(const char *prompt);
  void (*add_history)(const char *line);
  void (*resize)(void);      /* NULL if the library lacks this function */
  void (*prepare)(int meta); /* NULL if the library lacks this function */
  void (*restore)(void);     /* NULL if the library lacks this function */
  void (*redraw)(void);      /* NULL if the library lacks this function */
  int *completion_over;
  int *completion_append;
  char **line_buffer; /* NULL if the library lacks this variable */
  locale_t locale;    /* locale for non-ASCII characters; 0 means the program's locale */
} lib;

static tli_EditComplete complete_word;
static volatile sig_atomic_t interrupted, resized, continued;
/* signal masks: let_in applies while read_byte waits, kept_out at all other times */
static sigset_t let_in, kept_out;

/* ---- keys ------------------------------------------------------------------ */

/* the place to which the signal handler jumps; valid while `reading` is set */
static sigjmp_buf out_of_read;
static volatile sig_atomic_t reading;
static pthread_t editing_thread;

static void note_signal(int signo) {
  if (!pthread_equal(pthread_self(), editing_thread)) {
    /* the system has delivered the signal to another thread, which forwards it */
    pthread_kill(editing_thread, signo);
    return;
  }
  if (signo == SIGINT) {
    interrupted = 1;
    if (reading) siglongjmp(out_of_read, 1);
  } else if (signo == SIGWINCH)
    resized = 1;
  else
    continued = 1;
}

static void handle_flags(void) {
  if (lib.file == NULL) return;
  /* while the process was stopped, the shell may have changed the terminal's modes */
  if (continued && lib.restore && lib.prepare) {
    lib.restore();
    lib.prepare(1);
  }
  if (resized && lib.resize) lib.resize();
  if ((continued || resized) && lib.redraw) lib.redraw();
  continued = resized = 0;
}

/* Reads a byte, but returns at once when SIGINT arrives. A plain `read` might block although
** pselect has reported a byte, because the terminal discards its pending input on Ctrl-C. */
static ssize_t read_unless_interrupted(unsigned char *byte) {
  volatile ssize_t n = -1;
  if (sigsetjmp(out_of_read, 1) == 0) {
    reading = 1;
    pthread_sigmask(SIG_SETMASK, &let_in, NULL);
    n = read(STDIN_FILENO, byte, 1);
  }
  reading = 0;
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &kept_out, NULL);
  errno = error;
  return n;
}

/* Returns one byte from the terminal; EOF at the end of the input; '\n' after SIGINT. */
static int read_byte(void) {
  while (!interrupted) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(STDIN_FILENO, &set);
    handle_flags();
    int ready = pselect(STDIN_FILENO + 1, &set, NULL, NULL, NULL, &let_in);
    if (ready < 0 && errno != EINTR) return EOF;
    if (ready <= 0) continue;
    unsigned char byte;
    ssize_t n = read_unless_interrupted(&byte);
    if (interrupted) break;
    if (n == 1) return byte;
    if (n == 0 || (errno != EINTR && errno != EAGAIN)) return EOF;
  }
  if (interrupted == 1) {
    interrupted = 2;                   /* shown */
    if (lib.file) fputs("^C", stdout); /* without a library the terminal itself echoes ^C */
    fflush(stdout);
  }
  return '\n';
}

/* Reads a key for the editing library. libedit expects a whole character, readline a byte. */
static int read_key(FILE *unused) {
  (void)unused;
  int byte = read_byte();
  if (!lib.is_libedit || byte == EOF || byte < 0x80) return byte;
  mbstate_t state = {0};
  for (;;) {
    wchar_t wide;
    char c = (char)byte;
    size_t used = mbrtowc(&wide, &c, 1, &state);
    if (used == 1) return (int)wide;
    /* the bytes are not a valid character in this locale, so the last byte is passed on as it is */
    if (used != (size_t)-2) return byte & 0xff;
    byte = read_byte();
    if (byte == EOF || interrupted) return byte;
  }
}

/* ---- completion -------------------------------------------------------------- */

static size_t common_prefix(const char *a, const char *b) {
  size_t n = 0;
  while (a[n] != '\0' && a[n] == b[n]) n++;
  return n;
}

/* Returns a copy of the part of the line before the word `text`, which begins at `start`; NULL if
** the line has a different text at `start`. This happens because libedit counts `start` in
** characters instead of bytes. */
static char *line_before(const char *text, int start) {
  const char *line = lib.line_buffer ? *lib.line_buffer : NULL;
  if (line == NULL || start < 0 || strlen(line) < (size_t)start + strlen(text)) return NULL;
  if (strncmp(line + start, text, strlen(text)) != 0) return NULL;
  return strndup(line, (size_t)start);
}

/* Returns the completions in the format that both libraries expect: the first element is the common
** prefix of all completions, and the completions follow. */
static char **attempt(const char *text, int start, int end) {
  (void)end;
  *lib.completion_over = 1;      /* tells the library not to complete file names instead */
  *lib.completion_append = '\0'; /* readline resets this character to a space before each call */
  char *before = line_before(text, start);
  char **words = complete_word(text, before);
  free(before);
  if (words == NULL) return NULL;
  size_t n = 1;
  size_t common = strlen(words[0]);
  for (; words[n]; n++) {
    size_t shared = common_prefix(words[0], words[n]);
    if (shared < common) common = shared;
  }
  char **list = malloc((n + 2) * sizeof *list);
  char *prefix = strndup(words[0], common);
  if (list == NULL || prefix == NULL) {
    for (size_t i = 0; i < n; i++) free(words[i]);
    free(words), free(list), free(prefix);
    return NULL;
  }
  list[0] = prefix;
  memcpy(list + 1, words, (n + 1) * sizeof *list);
  if (n == 1) { /* a single completion is the common prefix, so the list has no further element */
    free(list[1]);
    list[1] = NULL;
  }
  free(words);
  return list;
}

/* ---- the library --------------------------------------------------------------- */

/* Finds a function in a library and stores its address in `pointer`. dlsym returns a data pointer;
** POSIX guarantees that it can be converted to a function pointer. */
static bool find_function(void *handle, const char *name, void *pointer) {
  void *symbol = tli_library_symbol(handle, name);
  memcpy(pointer, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* Sets a variable of the library, if the library has it. */
#define SET(handle, name, type, value)                  \
  do {                                                  \
    type *variable_ = tli_library_symbol(handle, name); \
    if (variable_) *variable_ = (value);                \
  } while (0)

static bool bind(void *handle) {
  bool all = find_function(handle, "readline", &lib.readline) &&
             find_function(handle, "add_history", &lib.add_history);
  find_function(handle, "rl_resize_terminal", &lib.resize);
  find_function(handle, "rl_prep_terminal", &lib.prepare);
  find_function(handle, "rl_deprep_terminal", &lib.restore);
  find_function(handle, "rl_forced_update_display", &lib.redraw);
  lib.completion_over = tli_library_symbol(handle, "rl_attempted_completion_over");
  lib.line_buffer = tli_library_symbol(handle, "rl_line_buffer");
  lib.completion_append = tli_library_symbol(handle, "rl_completion_append_character");
  /* without read_key the library itself would read from the terminal, while signals are blocked */
  return all && lib.completion_over && lib.completion_append &&
         tli_library_symbol(handle, "rl_getc_function");
}

static void configure(void *handle) {
  typedef int (*GetKey)(FILE *);
  SET(handle, "rl_readline_name", const char *, "tlua");
  SET(handle, "rl_catch_signals", int, 0);
  SET(handle, "rl_catch_sigwinch", int, 0);
  SET(handle, "rl_getc_function", GetKey, read_key);
  SET(handle, "rl_attempted_completion_function", Attempt, attempt);
  SET(handle, "rl_basic_word_break_characters", const char *, word_breaks);
  SET(handle, "rl_completer_word_break_characters", const char *, word_breaks);
  SET(handle, "rl_basic_quote_characters", const char *, "");
  const char **version = tli_library_symbol(handle, "rl_library_version");
  lib.is_libedit = version && *version && strstr(*version, "EditLine") != NULL;
}

const char *tli_edit_library(void) {
  if (lib.file) return lib.file;
  for (const char *const *file = tli_optional[TLI_OPTIONAL_EDIT].files; *file; file++) {
    void *handle = tli_library_open(*file);
    if (handle == NULL) continue;
    if (bind(handle)) { /* the library stays open until the process ends */
      configure(handle);
      return lib.file = *file;
    }
    tli_library_close(handle);
  }
  return NULL;
}

/* Returns a locale with the character encoding of the user's locale, or with UTF-8 if that locale
** specifies none. Lua itself keeps the "C" locale. */
static locale_t editing_locale(void) {
  locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
  if (locale && strcmp(nl_langinfo_l(CODESET, locale), "ANSI_X3.4-1968") != 0) return locale;
  locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  if (utf8 == (locale_t)0) return locale;
  if (locale) freelocale(locale);
  return utf8;
}

void tli_edit_open(tli_EditComplete complete) {
  complete_word = complete;
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !tli_edit_library()) return;
  lib.locale = editing_locale();
  locale_t before = uselocale(lib.locale);
  /* the locale must be set before this call, because libedit reads it only once, here */
  tli_history_load(lib.add_history);
  uselocale(before);
}

/* ---- lines ----------------------------------------------------------------------- */

static char *read_edited(const char *prompt) {
  locale_t before = uselocale(lib.locale);
  char *line = lib.readline(prompt);
  uselocale(before);
  return line;
}

/* Reads a line from a terminal without an editing library. The terminal driver itself allows simple
** editing, such as deleting a character. */
static char *read_typed(void) {
  size_t n = 0, size = 0;
  char *line = NULL;
  for (int c = read_byte();; c = read_byte()) {
    if (c == EOF && n == 0) break;
    if (n == size) {
      size = size ? 2 * size : 128;
      char *longer = realloc(line, size);
      if (longer == NULL) break;
      line = longer;
    }
    line[n++] = c == '\n' || c == EOF ? '\0' : (char)c;
    if (line[n - 1] == '\0') return line;
  }
  free(line);
  return NULL;
}

/* Reads a line from a file or pipe. Uses stdin's buffer, because the program may read from stdin as
** well. */
static char *read_stdin(void) {
  char *line = NULL;
  size_t size = 0;
  ssize_t n = getline(&line, &size, stdin);
  if (n < 0) {
    /* clears the end-of-file flag: a signal may have interrupted the read, so more input may
    ** follow */
    clearerr(stdin);
    free(line);
    return NULL;
  }
  if (n > 0 && line[n - 1] == '\n') line[n - 1] = '\0';
  return line;
}

static char *read_line(const char *prompt) {
  if (lib.file) return read_edited(prompt);
  fputs(prompt, stdout);
  fflush(stdout);
  return isatty(STDIN_FILENO) ? read_typed() : read_stdin();
}

static void keep_out(const int *signals, int n) {
  pthread_sigmask(SIG_BLOCK, NULL, &let_in);
  kept_out = let_in;
  for (int i = 0; i < n; i++) sigaddset(&kept_out, signals[i]);
  pthread_sigmask(SIG_SETMASK, &kept_out, NULL);
}

tli_EditResult tli_edit_read(const char *prompt, char **line) {
  static const int caught[] = {SIGINT, SIGWINCH, SIGCONT};
  enum { N = sizeof caught / sizeof *caught };
  /* without SA_RESTART a signal interrupts read */
  struct sigaction action = {.sa_handler = note_signal};
  struct sigaction before[N];
  sigemptyset(&action.sa_mask);
  interrupted = resized = continued = 0;
  editing_thread = pthread_self();
  bool at_terminal = isatty(STDIN_FILENO);
  for (int i = 0; i < N; i++) sigaction(caught[i], &action, &before[i]);
  if (at_terminal) keep_out(caught, N);
  *line = read_line(prompt);
  if (at_terminal) pthread_sigmask(SIG_SETMASK, &let_in, NULL);
  for (int i = 0; i < N; i++) sigaction(caught[i], &before[i], NULL);
  if (!interrupted) return *line ? TLI_EDIT_LINE : TLI_EDIT_END;
  free(*line);
  *line = NULL;
  if (lib.file == NULL) putchar('\n');
  return TLI_EDIT_INTERRUPTED;
}

void tli_edit_remember(const char *entry) {
  if (lib.file == NULL) return;
  lib.add_history(entry);
  tli_history_append(entry);
}
