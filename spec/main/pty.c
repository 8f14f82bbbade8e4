/*
** pty.c - simulates a person at a terminal: runs a command under a pseudo-terminal, waits for its
** output and types the lines of a script.
**
**   pty SCRIPT COMMAND [ARGUMENT...]
**
** Lines of SCRIPT:   ? TEXT   wait until TEXT is shown
**                    ! TEXT   type TEXT; \n \t \\ and \ooo (octal) as in C
**                    ~        wait until keys are read one by one (an editor is
**                             at work), not line by line
** The search continues after the last match. After the last line, pty waits for
** the command to end. All output goes to stdout; the exit status is the
** command's, 128 + n if signal n ended it, 99 if expected output did not come in
** time.
*/
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 600

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* The patience is long, because other programs may use the processors. */
enum { PATIENCE_MS = 120000, SHOWN = 1 << 20 };
/* the output of the command so far */
static char shown[SHOWN + 1];
static size_t length, matched;

/* Reads more output. Returns false if the output has ended or a timeout has passed. */
static bool take(int terminal) {
  struct pollfd wait = {.fd = terminal, .events = POLLIN};
  if (poll(&wait, 1, PATIENCE_MS) <= 0 || length == SHOWN) return false;
  ssize_t n = read(terminal, shown + length, SHOWN - length);
  if (n <= 0) return false; /* the error EIO means that the command has closed the terminal */
  size_t end = length + (size_t)n;
  /* skips NUL characters, which are padding for slow terminals */
  for (size_t i = length; i < end; i++)
    if (shown[i] != '\0') shown[length++] = shown[i];
  shown[length] = '\0';
  return true;
}

static bool await(int terminal, const char *text) {
  for (;;) {
    char *at = strstr(shown + matched, text);
    if (at) {
      matched = (size_t)(at - shown) + strlen(text);
      return true;
    }
    if (!take(terminal)) return false;
  }
}

/* Waits until an editor has switched the terminal to reading single keys. The mode can also be
** queried at this end of the terminal. */
static bool await_editor(int terminal) {
  enum { STEP_MS = 5 };
  for (int waited = 0; waited < PATIENCE_MS; waited += STEP_MS) {
    struct termios mode;
    if (tcgetattr(terminal, &mode) == 0 && (mode.c_lflag & ICANON) == 0) return true;
    usleep(STEP_MS * 1000);
  }
  return false;
}

static char unescape(const char **p) {
  char c = *(*p)++;
  if (c != '\\') return c;
  c = *(*p)++;
  if (c == 'n') return '\r'; /* the Enter key sends '\r' */
  if (c == 't') return '\t';
  if (c < '0' || c > '7') return c;
  int code = c - '0';
  for (int i = 0; i < 2 && **p >= '0' && **p <= '7'; i++) code = code * 8 + (*(*p)++ - '0');
  return (char)code;
}

static bool type(int terminal, const char *text) {
  while (*text != '\0') {
    char c = unescape(&text);
    if (write(terminal, &c, 1) != 1) return false;
  }
  return true;
}

static bool play(int terminal, FILE *script) {
  char line[1024];
  while (fgets(line, sizeof line, script)) {
    line[strcspn(line, "\n")] = '\0';
    bool done = line[0] == '~'   ? await_editor(terminal)
                : line[0] == '?' ? await(terminal, line + 2)
                                 : type(terminal, line + 2);
    if (!done) {
      fprintf(stderr, "pty: in vain: %s\n", line);
      return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  FILE *script = argc > 2 ? fopen(argv[1], "r") : NULL;
  if (script == NULL) return 2;
  struct winsize size = {.ws_row = 24, .ws_col = 80};
  int terminal;
  pid_t child = forkpty(&terminal, NULL, NULL, &size);
  if (child < 0) return 2;
  if (child == 0) {
    /* the parent may have set SIGINT to be ignored, as shells do for background jobs */
    signal(SIGINT, SIG_DFL);
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  bool good = play(terminal, script);
  if (!good) kill(child, SIGKILL);
  while (take(terminal)) continue;
  int status;
  kill(child, SIGHUP); /* ends a command that still waits for input */
  waitpid(child, &status, 0);
  fwrite(shown, 1, length, stdout);
  if (!good) return 99;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
