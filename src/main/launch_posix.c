/*
** launch_posix.c - implements launch.h. The launcher serves the store through which the ranks find
** one another. It forwards the output of each rank line by line, and puts the rank's number in
** front of each line. No rank outlives the launcher: each rank leads its own process group, which
** is killed as a whole. On Linux the system also kills a rank when the launcher ends.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "main/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/platform/platform.h"
#include "dist/group.h"
#include "dist/secret.h"
#include "dist/store.h"
#include "main/elastic.h"
#include "main/script.h"

#ifdef __linux__
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

/* How long, in ns, ranks may continue before they are killed. GRACE begins when a rank has failed:
** the other ranks can report their status and end by themselves. HASTE begins when an elastic round
** ends, and PATIENCE when a signal asks the launcher to end. */
#define GRACE INT64_C(5000000000)
#define HASTE INT64_C(1000000000)
#define PATIENCE INT64_C(3000000000)
enum { TAIL = 16384 }; /* number of bytes that are kept from the end of a rank's stderr */

typedef struct Stream {
  int file; /* read end of the rank's output pipe; -1 once closed */
  FILE *to; /* borrowed */
  char line[4096];
  size_t n;
} Stream;

typedef struct Rank {
  pid_t pid; /* the rank's process id; 0 once the process has ended */
  int end;   /* a pidfd, readable once the process has ended; -1 if there is none */
  int status;
  Stream out, err;
  char tail[TAIL];
  size_t ntail;
} Rank;

typedef struct Launch {
  /* n is the number of ranks on this machine; nodes is the number of machines; node is this
  ** machine's number, from 0 */
  int n, max_restarts, nodes, node;
  const char *timeout, *rendezvous, *host, *secret_file;
  char master[128], master_port[128], master_both[260];
  /* the job's secret; NULL if the job has none, and TLI_STORE_TRUST if connections need none */
  const char *secret;
  char secret_text[TLI_SECRET_ROOM];
  /* the limit on open files from the start of this process, which ranks get back */
  struct rlimit files;
  int script; /* index in argv of the script's name */
  int port;
  int ends;     /* an epoll instance with the pidfds of all ranks; -1 if there is none */
  Rank *ranks;  /* owned */
  int restarts; /* number of restarts so far */
  bool until_eof;
  bool elastic; /* whether the number of machines may change: each round then sets nodes and node */
  tli_Elastic round;
} Launch;

/* ---- the command line -------------------------------------------------------------- */

static const char usage[] =
    "usage: tlua run [options] script [args]\n"
    "  -n N, --nproc-per-node N   processes on this machine (1)\n"
    "  --max-restarts N           start all again, so often, when one fails (0)\n"
    "  --timeout S                seconds until ranks give up waiting for another (60)\n"
    "  --nnodes N                 machines (1); MIN:MAX: as many as there are, changing\n"
    "  --node-rank N              the number of this one, from 0; not with MIN:MAX\n"
    "  --rdzv HOST:PORT           where number 0 is to be found\n"
    "  --secret-file FILE         the job's secret, of at least 16 characters, in a file of mode\n"
    "                             600; all machines have the same (else TLUA_SECRET says it)\n"
    "  --until-eof                end all when standard input ends\n"
    "Each process finds RANK, LOCAL_RANK, WORLD_SIZE and the like in its environment. torchrun's\n"
    "spellings are taken, too: --nproc_per_node=N, --rdzv_endpoint, --master_addr, --master_port,\n"
    "--standalone; --rdzv_backend and --rdzv_id mean nothing here.\n";

static bool to_number(const char *text, int least, int most, int *out) {
  char *end;
  long n = strtol(text, &end, 10);
  if (*text == '\0' || *end || n < least || n > most) return false;
  *out = (int)n;
  return true;
}

static bool complain(const char *what, const char *value) {
  char text[200];
  snprintf(text, sizeof text, "run: %s, got '%.80s'", what, value);
  tli_script_complain(text);
  fputs(usage, stderr);
  return false;
}

/* "3", or "1:4". */
static bool take_nodes(Launch *l, const char *value) {
  char least[16];
  const char *colon = strchr(value, ':');
  if (colon == NULL)
    return to_number(value, 1, 100000, &l->nodes) || complain("--nnodes: expected a number", value);
  snprintf(least, sizeof least, "%.*s", (int)(colon - value), value);
  l->elastic = to_number(least, 1, TLI_MOST_NODES, &l->round.least) &&
               to_number(colon + 1, l->round.least, TLI_MOST_NODES, &l->round.most);
  return l->elastic || complain("--nnodes: expected MIN:MAX of at most 1024", value);
}

/* Parses the value of --master_addr or --master_port. These options of torchrun give the two parts
** of "HOST:PORT" separately. */
static bool take_master(Launch *l, const char *name, const char *value) {
  char *part = strcmp(name, "--master-addr") == 0 ? l->master : l->master_port;
  snprintf(part, sizeof l->master, "%s", value);
  snprintf(l->master_both, sizeof l->master_both, "%s:%s", l->master[0] ? l->master : "127.0.0.1",
           l->master_port[0] ? l->master_port : "29500");
  l->rendezvous = l->master_both;
  return true;
}

/* Parses an option and its value; returns false after printing an error. */
static bool take_option(Launch *l, const char *name, const char *value) {
  if (strcmp(name, "-n") == 0 || strcmp(name, "--nproc-per-node") == 0)
    return to_number(value, 1, TLI_SHM_RANKS, &l->n) ||
           complain("-n: expected 1 to 128 processes", value);
  if (strcmp(name, "--max-restarts") == 0)
    return to_number(value, 0, 1000000, &l->max_restarts) ||
           complain("--max-restarts: expected a number", value);
  if (strcmp(name, "--nnodes") == 0) return take_nodes(l, value);
  if (strcmp(name, "--node-rank") == 0)
    return to_number(value, 0, 100000, &l->node) ||
           complain("--node-rank: expected a number", value);
  if (strcmp(name, "--timeout") == 0) {
    l->timeout = value;
    return strtod(value, NULL) > 0 || complain("--timeout: expected seconds", value);
  }
  if (strcmp(name, "--master-addr") == 0 || strcmp(name, "--master-port") == 0)
    return take_master(l, name, value);
  if (strcmp(name, "--rdzv-backend") == 0 || strcmp(name, "--rdzv-id") == 0) return true;
  if (strcmp(name, "--rdzv") == 0 || strcmp(name, "--rdzv-endpoint") == 0) {
    l->rendezvous = value;
    return true;
  }
  if (strcmp(name, "--secret-file") == 0) {
    l->secret_file = value;
    return true;
  }
  return complain("unknown option", name);
}

/* Splits an option in torchrun's form, "--nproc_per_node=4": copies its name to `name` and returns
** its value. Returns NULL if the word contains no value. */
static const char *split_option(const char *word, char name[40]) {
  size_t n = strcspn(word, "=");
  snprintf(name, 40, "%.*s", (int)(n < 39 ? n : 39), word);
  for (char *c = name; *c; c++)
    if (*c == '_') *c = '-';
  return word[n] == '=' ? word + n + 1 : NULL;
}

static bool parse(Launch *l, int argc, char **argv) {
  int i = 2;
  while (i < argc && argv[i][0] == '-' && argv[i][1]) {
    if (strcmp(argv[i], "--") == 0) {
      i++;
      break;
    }
    if (strncmp(argv[i], "-n", 2) == 0 && argv[i][2] >= '0' && argv[i][2] <= '9') { /* -n4 */
      if (!take_option(l, "-n", argv[i++] + 2)) return false;
      continue;
    }
    char name[40];
    const char *value = split_option(argv[i], name);
    bool until_eof = strcmp(argv[i], "--until-eof") == 0;
    l->until_eof |= until_eof;
    if (!until_eof && strcmp(argv[i], "--standalone") != 0) {
      if (value == NULL && i + 1 >= argc) return complain("a value is missing", argv[i]);
      if (value == NULL) value = argv[++i];
      if (!take_option(l, name, value)) return false;
    }
    i++;
  }
  l->script = i;
  if (i >= argc) return complain("expected a script", "");
  if (l->node >= l->nodes) {
    char what[60], got[20];
    snprintf(what, sizeof what, "--node-rank: expected 0 to %d", l->nodes - 1);
    snprintf(got, sizeof got, "%d", l->node);
    return complain(what, got);
  }
  if ((l->nodes > 1 || l->elastic) && l->rendezvous == NULL)
    return complain("--rdzv: expected HOST:PORT beside --nnodes", "");
  return true;
}

/* ---- one rank ------------------------------------------------------------------------ */

static void set_number(const char *name, int n) {
  char text[32];
  snprintf(text, sizeof text, "%d", n);
  setenv(name, text, 1);
}

/* Sets the environment variables that are the same for all ranks. */
static void set_environment(const Launch *l) {
  set_number("WORLD_SIZE", l->n * l->nodes);
  set_number("LOCAL_WORLD_SIZE", l->n);
  set_number("GROUP_RANK", l->node);
  set_number("MASTER_PORT", l->port);
  set_number("TLUA_RESTART_COUNT", l->elastic ? (int)l->round.round - 1 : l->restarts);
  set_number("TLUA_MAX_RESTARTS", l->max_restarts);
  setenv("MASTER_ADDR", l->host, 1);
  setenv("TLUA_STORE", "launcher", 1);
  if (l->secret && *l->secret) setenv("TLUA_SECRET", l->secret, 1);
  setenv("TLUA_DISTRIBUTED_TIMEOUT", l->timeout, 0);
  int threads = tli_processors() / l->n;
  if (getenv("OMP_NUM_THREADS") == NULL) set_number("OMP_NUM_THREADS", threads > 1 ? threads : 1);
}

/* Adds a rank's pidfd to the epoll instance, which reports files in the order in which they became
** ready. If several ranks end between two polls, the launcher thus learns which rank ended first.
** waitpid would not tell the order. */
static void watch_end(Launch *l, int i) {
  l->ranks[i].end = -1;
#if defined(__linux__) && defined(SYS_pidfd_open)
  if (l->ends < 0) l->ends = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = (uint32_t)i};
  int file = l->ends < 0 ? -1 : (int)syscall(SYS_pidfd_open, l->ranks[i].pid, 0);
  if (file >= 0 && epoll_ctl(l->ends, EPOLL_CTL_ADD, file, &event) != 0) {
    close(file);
    file = -1;
  }
  l->ranks[i].end = file;
#endif
}

/* Lists the ranks that may have ended. The ranks whose end the system has reported come first, in
** the order in which they ended. */
static int list_ends(Launch *l, int list[2 * TLI_SHM_RANKS]) {
  int n = 0;
#ifdef __linux__
  struct epoll_event events[TLI_SHM_RANKS];
  int ended = l->ends < 0 ? 0 : epoll_wait(l->ends, events, TLI_SHM_RANKS, 0);
  for (int k = 0; k < ended; k++) {
    int i = list[n++] = (int)events[k].data.u32;
    close(l->ranks[i].end);
    l->ranks[i].end = -1;
  }
#endif
  for (int i = 0; i < l->n; i++)
    if (l->ranks[i].end < 0) list[n++] = i;
  return n;
}

/* Turns the child process into a rank. May call only functions that are allowed between fork and
** exec. */
static void become(char **argv, const char *program, const int out[2], const int err[2],
                   const sigset_t *mask, pid_t parent, const struct rlimit *files) {
  setpgid(0, 0);
  setrlimit(RLIMIT_NOFILE, files);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
#else
  (void)parent;
#endif
  int none = open("/dev/null", O_RDONLY);
  if (none >= 0) dup2(none, 0);
  dup2(out[1], 1);
  dup2(err[1], 2);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, mask, NULL);
  execv(program, argv);
  _exit(127);
}

static void begin_stream(Stream *s, int file, FILE *to) {
  fcntl(file, F_SETFL, O_NONBLOCK);
  s->file = file;
  s->to = to;
  s->n = 0;
}

/* Returns an array of `n` ranks that have not started and have no output streams; NULL if memory is
** exhausted. */
static Rank *new_ranks(int n) {
  Rank *ranks = calloc((size_t)n, sizeof *ranks);
  for (int i = 0; ranks && i < n; i++) ranks[i].out.file = ranks[i].err.file = -1;
  return ranks;
}

static bool start_rank(Launch *l, int i, char **argv, const char *program) {
  Rank *r = &l->ranks[i];
  int out[2], err[2];
  sigset_t mask;
  if (pipe(out) != 0) return false;
  if (pipe(err) != 0) {
    close(out[0]);
    close(out[1]);
    return false;
  }
  for (int k = 0; k < 2; k++) {
    fcntl(out[k], F_SETFD, FD_CLOEXEC);
    fcntl(err[k], F_SETFD, FD_CLOEXEC);
  }
  set_number("RANK", l->node * l->n + i);
  set_number("LOCAL_RANK", i);
  sigprocmask(SIG_SETMASK, NULL, &mask);
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(argv, program, out, err, &mask, parent, &l->files);
  close(out[1]);
  close(err[1]);
  begin_stream(&r->out, out[0], stdout);
  begin_stream(&r->err, err[0], stderr);
  r->ntail = 0;
  r->status = 0;
  r->pid = pid > 0 ? pid : 0;
  if (pid <= 0) return false;
  setpgid(pid, pid); /* both the parent and the child call setpgid, since either may run first */
  watch_end(l, i);
  return true;
}

/* ---- what ranks write -------------------------------------------------------------- */

static void put_line(const Launch *l, int i, Stream *s, bool ended) {
  if (s->n == 0 && !ended) return;
  fprintf(s->to, "[%d] ", l->node * l->n + i);
  fwrite(s->line, 1, s->n, s->to);
  putc('\n', s->to);
  s->n = 0;
}

static void keep_tail(Rank *r, const char *data, size_t n) {
  if (n > TAIL) {
    data += n - TAIL;
    n = TAIL;
  }
  size_t over = r->ntail + n > TAIL ? r->ntail + n - TAIL : 0;
  memmove(r->tail, r->tail + over, r->ntail - over);
  r->ntail -= over;
  memcpy(r->tail + r->ntail, data, n);
  r->ntail += n;
}

/* Forwards the output that a rank has written so far. When the output has ended, closes the
** stream. */
static void pass_on(const Launch *l, int i, Stream *s) {
  char data[8192];
  while (s->file >= 0) {
    ssize_t n = read(s->file, data, sizeof data);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      put_line(l, i, s, false);
      close(s->file);
      s->file = -1;
      break;
    }
    if (s == &l->ranks[i].err) keep_tail(&l->ranks[i], data, (size_t)n);
    for (ssize_t k = 0; k < n; k++) {
      if (data[k] == '\n')
        put_line(l, i, s, true);
      else
        s->line[s->n++] = data[k];
      if (s->n == sizeof s->line) put_line(l, i, s, false);
    }
  }
  fflush(s->to);
}

static void close_stream(const Launch *l, int i, Stream *s) {
  pass_on(l, i, s);
  if (s->file < 0) return;
  put_line(l, i, s, false);
  fflush(s->to);
  close(s->file);
  s->file = -1;
}

/* ---- all of them ------------------------------------------------------------------- */

static int wake_pipe[2] = {-1, -1};
static volatile sig_atomic_t asked; /* number of the last signal that asked the launcher to end */

static void on_signal(int number) {
  int before = errno;
  if (number != SIGCHLD) asked = number;
  /* a failure can be ignored: if the pipe is full, its earlier bytes wake the launcher */
  if (write(wake_pipe[1], "", 1) < 0) errno = 0;
  errno = before;
}

static int living(const Launch *l) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += l->ranks[i].pid != 0;
  return n;
}

static void signal_all(const Launch *l, int number) {
  for (int i = 0; i < l->n; i++)
    if (l->ranks[i].pid) kill(-l->ranks[i].pid, number);
}

/* Reaps the ranks that have ended. If no rank had failed before (*failed < 0), sets *failed to the
** number of the first rank that has failed. */
static void reap(Launch *l, int *failed) {
  int status, list[2 * TLI_SHM_RANKS], n = list_ends(l, list);
  for (int k = 0; k < n; k++) {
    int i = list[k];
    Rank *r = &l->ranks[i];
    if (r->pid == 0 || waitpid(r->pid, &status, WNOHANG) != r->pid) continue;
    r->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    kill(-r->pid, SIGKILL); /* kills the processes that the rank has started and left running */
    r->pid = 0;
    if (r->status != 0 && *failed < 0) *failed = i;
  }
}

/* Reads and discards standard input. At the end of the input the launcher ends as after SIGTERM. */
static void look_for_eof(Launch *l) {
  char drop[64];
  ssize_t n = read(0, drop, sizeof drop);
  if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))) return;
  l->until_eof = false;
  if (!asked) asked = SIGTERM;
}

static void wait_a_while(Launch *l, int milliseconds) {
  struct pollfd p[2 * TLI_SHM_RANKS + 3];
  char drop[64];
  nfds_t n = 0;
  p[n++] = (struct pollfd){wake_pipe[0], POLLIN, 0};
  if (l->ends >= 0) p[n++] = (struct pollfd){l->ends, POLLIN, 0};
  for (int i = 0; i < l->n; i++) {
    const Stream *streams[] = {&l->ranks[i].out, &l->ranks[i].err};
    for (int k = 0; k < 2; k++)
      if (streams[k]->file >= 0) p[n++] = (struct pollfd){streams[k]->file, POLLIN, 0};
  }
  if (l->until_eof) p[n++] = (struct pollfd){0, POLLIN, 0};
  if (poll(p, n, milliseconds) > 0 && l->until_eof && p[n - 1].revents != 0) look_for_eof(l);
  while (read(wake_pipe[0], drop, sizeof drop) > 0) continue;
  for (int i = 0; i < l->n; i++) {
    pass_on(l, i, &l->ranks[i].out);
    pass_on(l, i, &l->ranks[i].err);
  }
}

/* Waits until all ranks have ended. Returns the number of the first rank that failed; -1 if none
** did. */
static int attend(Launch *l, tli_ElasticState *state) {
  int failed = -1, forwarded = 0;
  int64_t end = INT64_MAX; /* the time at which the remaining ranks are killed */
  while (living(l) > 0) {
    wait_a_while(l, end != INT64_MAX ? 20 : l->elastic ? 100 : 1000);
    int before = failed;
    reap(l, &failed);
    bool ours = before < 0 && failed >= 0;
    if (ours && l->elastic) tli_elastic_fail(&l->round);
    if (ours && end == INT64_MAX) end = tli_now_ns() + (l->elastic ? HASTE : GRACE);
    if (l->elastic && end == INT64_MAX && !asked) {
      *state = tli_elastic_look(&l->round);
      if (*state != TLI_ELASTIC_ON) {
        signal_all(l, SIGTERM);
        end = tli_now_ns() + HASTE;
      }
    }
    if (asked && asked != forwarded) {
      forwarded = asked;
      signal_all(l, forwarded);
      end = tli_now_ns() + PATIENCE;
    }
    if (tli_now_ns() >= end) {
      signal_all(l, SIGKILL);
      end = tli_now_ns() + HASTE;
    }
  }
  for (int i = 0; i < l->n; i++) {
    close_stream(l, i, &l->ranks[i].out);
    close_stream(l, i, &l->ranks[i].err);
  }
  return failed;
}

/* Prints once more the last lines that rank i, the first that failed, has written to stderr. */
static void report(const Launch *l, int i) {
  const Rank *r = &l->ranks[i];
  int rank = l->node * l->n + i;
  fflush(stdout);
  if (r->status > 128)
    fprintf(stderr, "tlua run: rank %d was the first to fail, by signal %d", rank, r->status - 128);
  else
    fprintf(stderr, "tlua run: rank %d was the first to fail, with status %d", rank, r->status);
  fputs(r->ntail > 0 ? ":\n" : "\n", stderr);
  fwrite(r->tail, 1, r->ntail, stderr);
  if (r->ntail > 0 && r->tail[r->ntail - 1] != '\n') putc('\n', stderr);
  fflush(stderr);
}

/* Prints the action that the system has refused, and the reason from errno. */
static void complain_of_system(const char *what) {
  char text[120];
  snprintf(text, sizeof text, "run: %s: %s", what, strerror(errno));
  tli_script_complain(text);
}

static int run_all(Launch *l, char **argv, const char *program, tli_ElasticState *state) {
  int failed = -1;
  bool started = true;
  *state = TLI_ELASTIC_ON;
  set_environment(l);
  for (int i = 0; i < l->n && started; i++) started = start_rank(l, i, argv, program);
  if (!started) {
    complain_of_system("a process could not be started");
    signal_all(l, SIGKILL);
    attend(l, state);
    return EXIT_FAILURE;
  }
  failed = attend(l, state);
  if (asked) return 128 + asked;
  if (*state != TLI_ELASTIC_ON) return EXIT_FAILURE;
  if (failed < 0) return EXIT_SUCCESS;
  report(l, failed);
  return l->ranks[failed].status;
}

static bool catch_signals(void) {
  static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
  if (pipe(wake_pipe) != 0) return false;
  for (int i = 0; i < 2; i++) {
    fcntl(wake_pipe[i], F_SETFD, FD_CLOEXEC);
    fcntl(wake_pipe[i], F_SETFL, O_NONBLOCK);
  }
  signal(SIGPIPE, SIG_IGN);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(signals[i], &action, NULL);
  }
  return true;
}

static int fail(void) {
  char text[400];
  snprintf(text, sizeof text, "run: %s", tl_error());
  tli_script_complain(text);
  return EXIT_FAILURE;
}

/* Serves the store. Only the launcher of the first machine calls this function. */
static tli_StoreServer *serve(Launch *l) {
  static char host[128];
  snprintf(host, sizeof host, "127.0.0.1");
  l->host = host;
  l->port = 0;
  if (l->rendezvous) {
    const char *colon = strrchr(l->rendezvous, ':');
    if (colon == NULL || !to_number(colon + 1, 0, 65535, &l->port) ||
        colon - l->rendezvous >= (ptrdiff_t)sizeof host)
      return tli_fail_null(TL_EARG, "--rdzv: expected HOST:PORT, got '%.80s'", l->rendezvous);
    snprintf(host, sizeof host, "%.*s", (int)(colon - l->rendezvous), l->rendezvous);
  }
  tli_StoreServer *server = tli_store_serve(l->host, l->port, l->secret);
  if (server) l->port = tli_store_server_port(server);
  return server;
}

/* Runs the ranks. After a failure runs all of them again, up to max_restarts times. */
static int run_again(Launch *l, char **argv, const char *program) {
  tli_ElasticState state;
  for (;; l->restarts++) {
    int status = run_all(l, argv, program, &state);
    if (status == EXIT_SUCCESS || asked || l->restarts >= l->max_restarts) return status;
    fprintf(stderr, "tlua run: starting all again (%d of %d)\n", l->restarts + 1, l->max_restarts);
  }
}

/* Runs the ranks in elastic rounds. A round includes the launchers that are present at its start. A
** restart because a new launcher has come does not count as a failure. */
static int run_rounds(Launch *l, char **argv, const char *program) {
  int status = EXIT_FAILURE;
  for (;;) {
    tli_ElasticState state;
    if (!tli_elastic_meet(&l->round)) {
      fail();
      break;
    }
    l->node = l->round.node;
    l->nodes = l->round.nodes;
    fprintf(stderr, "tlua run: machine %d of %d, round %lld\n", l->node + 1, l->nodes,
            (long long)l->round.round);
    status = run_all(l, argv, program, &state);
    if (asked) break;
    if (status == EXIT_SUCCESS) state = tli_elastic_finish(&l->round);
    if (status == EXIT_SUCCESS && state == TLI_ELASTIC_ON) break;
    if (state != TLI_ELASTIC_GROWS && l->restarts++ >= l->max_restarts) break;
  }
  tli_elastic_close(&l->round);
  return status;
}

/* Takes the secret that the user has given; without one, makes a new secret if this launcher starts
** all ranks. Several launchers without a secret can meet only if they are on one machine. */
static bool take_secret(Launch *l) {
  const char *given = getenv("TLUA_SECRET");
  l->secret = l->secret_text;
  if (l->secret_file) return tli_secret_read(l->secret_file, l->secret_text);
  if (given && strcmp(given, "none") == 0) {
    l->secret = TLI_STORE_TRUST;
    return true;
  }
  if (given) {
    snprintf(l->secret_text, sizeof l->secret_text, "%s", given);
    return tli_secret_check("TLUA_SECRET", given);
  }
  if (l->nodes == 1 && !l->elastic) return tli_secret_make(l->secret_text);
  l->secret = NULL;
  return true;
}

/* Raises the limit on open files, because the launcher opens a few files for each rank, and the
** store's server a connection. */
static void raise_files(Launch *l) {
  struct rlimit most;
  if (getrlimit(RLIMIT_NOFILE, &l->files) != 0) return;
  most = l->files;
  most.rlim_cur = most.rlim_max;
  setrlimit(RLIMIT_NOFILE, &most);
}

static int launch(Launch *l, int argc, char **argv) {
  char program[4096];
  tli_library_path((const void *)&usage, program, sizeof program);
  char **arguments = calloc((size_t)(argc - l->script + 2), sizeof *arguments);
  l->ranks = new_ranks(l->n);
  int status = EXIT_FAILURE;
  if (arguments && l->ranks && catch_signals()) {
    arguments[0] = argv[0];
    for (int i = l->script; i < argc; i++) arguments[i - l->script + 1] = argv[i];
    status = l->elastic ? run_rounds(l, arguments, program) : run_again(l, arguments, program);
  } else {
    complain_of_system("no ranks could be started");
  }
  free(arguments);
  free(l->ranks);
  if (l->ends >= 0) close(l->ends);
  return status;
}

int tli_launch(int argc, char **argv) {
  Launch l = {.n = 1, .nodes = 1, .timeout = "60", .ends = -1};
  if (argc > 2 && strcmp(argv[2], "--help") == 0) {
    fputs(usage, stdout);
    return EXIT_SUCCESS;
  }
  if (!parse(&l, argc, argv)) return EXIT_FAILURE;
  if (!take_secret(&l)) return fail();
  raise_files(&l);
  tli_StoreServer *server = NULL;
  if (l.elastic || l.node > 0) {
    static char host[128];
    const char *colon = strrchr(l.rendezvous, ':');
    if (colon == NULL || !to_number(colon + 1, 1, 65535, &l.port)) {
      complain("--rdzv: expected HOST:PORT", l.rendezvous);
      return EXIT_FAILURE;
    }
    snprintf(host, sizeof host, "%.*s", (int)(colon - l.rendezvous), l.rendezvous);
    l.host = l.round.host = host;
    l.round.port = l.port;
    l.round.secret = l.secret;
    l.round.timeout = (int64_t)(strtod(l.timeout, NULL) * 1e9);
  } else if ((server = serve(&l)) == NULL) {
    return fail();
  }
  int status = launch(&l, argc, argv);
  if (status != EXIT_SUCCESS && server && tli_store_server_lacked_files(server))
    tli_script_complain("run: too few files may be open for the connections of all ranks: raise "
                        "the limit (ulimit -n)");
  tli_store_server_stop(server);
  return status;
}

void tli_launch_prepare(void) {
  if (getenv("TLUA_STORE")) setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}
