/*
** worker.c - implements torch.workers: threads, each of which has an interpreter.
**
** A pool has a fixed number of threads. Each thread opens a Lua state, unpacks the pool's first
** parcel (a module's name and values), and calls the module's function with these values. The
** function returns another function, which the thread then calls for each job. Jobs and answers are
** parcels in queues with a common lock. Nothing else is shared, so no interpreter waits for another
** one.
**
** Invariant: threads hold references to the pool, never to the Lua state that made the pool, so
** threads and state may end in any order.
**
** When a pool stops, a debug hook ends the code that is still running in a worker. The allocator of
** the worker's interpreter sets the hook, in the worker's thread. A loop that allocates nothing
** does not reach the allocator. So after a while the thread that stops the pool sets the hook. This
** is safe, because code that is still running has not allocated in the meantime, so no collection
** frees the stack frames that lua_sethook visits. A hook belongs to one coroutine. So in a worker,
** coroutine.resume and the functions that coroutine.wrap returns record which coroutine is running.
*/
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/settings.h"
#include "core/platform/parallel.h"
#include "core/platform/platform.h"
#include "core/observe/profile.h"
#include "lua/devices/device_module.h"
#include "lua/limits.h"
#include "lua/workers/parcel.h"
#include "lua/tensor/value.h"

#define POOL "torch.Workers"
#define SLICE_NS ((int64_t)50000000) /* how long to wait, in ns, before checking for Ctrl-C again */
#define LAST_WAIT_NS ((int64_t)2000000000)
/* the time for which running code may continue before it is ended, in ns */
#define STOP_WAIT_NS ((int64_t)50000000)

typedef struct Message {
  struct Message *next;
  tli_Parcel *parcel; /* the values of the message (owned); NULL if the message is an error */
  char *text;         /* the error message (owned); NULL means that memory was exhausted */
  /* lets the receiving thread take part in the sender's profiler session (owned); NULL if there is
  ** no session */
  tli_Invitation *invitation;
  int worker;
  int64_t job;
} Message;

typedef struct Queue {
  Message *first, **end;
} Queue;

/* The worker threads of one state. */
typedef struct tli_Crew {
  int refs, running; /* reference count, and number of running workers; the lock guards both */
  /* value of `forks` when the crew was made; after a fork the child process has no threads of the
  ** crew */
  int forks;
  tli_Mutex lock;
  tli_Condition left;
} tli_Crew;

typedef struct Pool {
  atomic_int refs;
  atomic_bool stop;
  int n;
  tli_Mutex lock;
  /* signalled when an answer arrives, or when the last busy worker becomes idle */
  tli_Condition arrived;
  /* for each worker a condition, signalled when a job arrives or the pool stops (owned) */
  tli_Condition *work;
  Queue *jobs; /* for each worker its queue of jobs (owned) */
  /* for each worker its running coroutine (borrowed), NULL if it is idle; the array is owned */
  lua_State **busy;
  Queue answers;
  tli_Parcel *first; /* the parcel that each worker unpacks first (owned) */
  char *paths[2];    /* search paths of modules (owned); NULL means the default */
  tli_Crew *crew;    /* the crew (owned reference) */
} Pool;

typedef struct Box {
  Pool *pool; /* the pool (owned reference); NULL once closed */
} Box;

/* ---- crews ---- */

static atomic_int forks; /* number of calls of fork between the original process and this one */

static void count_fork(void) { atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); }

/* Returns whether this process is a fork of the process that has the crew's threads. Then the crew
** must not be used, because its locks may never be released. */
static bool is_parents(const tli_Crew *crew) {
  return crew->forks != atomic_load_explicit(&forks, memory_order_relaxed);
}

static tli_Crew *crew_new(void) {
  static atomic_bool watched;
  if (!atomic_exchange(&watched, true)) tli_at_fork(NULL, NULL, count_fork);
  tli_Crew *crew = (tli_Crew *)calloc(1, sizeof *crew);
  if (crew == NULL) return NULL;
  crew->refs = 1;
  crew->forks = atomic_load_explicit(&forks, memory_order_relaxed);
  tli_mutex_init(&crew->lock);
  tli_condition_init(&crew->left);
  return crew;
}

static void crew_free(tli_Crew *crew) {
  tli_mutex_destroy(&crew->lock);
  free(crew);
}

/* Changes the reference count and the number of running threads by the given amounts. Frees the
** crew with its last reference. */
static void crew_count(tli_Crew *crew, int refs, int running) {
  tli_mutex_lock(&crew->lock);
  crew->refs += refs;
  crew->running += running;
  if (running < 0) tli_condition_broadcast(&crew->left);
  bool last = crew->refs == 0;
  tli_mutex_unlock(&crew->lock);
  if (last) crew_free(crew);
}

static int crew_running(tli_Crew *crew) {
  tli_mutex_lock(&crew->lock);
  int running = crew->running;
  tli_mutex_unlock(&crew->lock);
  return running;
}

void tli_crew_dismiss(tli_Crew *crew) {
  if (crew == NULL || is_parents(crew)) return;
  int64_t end = tli_now_ns() + LAST_WAIT_NS;
  tli_mutex_lock(&crew->lock);
  for (int64_t left; crew->running > 0 && (left = end - tli_now_ns()) > 0;)
    tli_condition_wait_for(&crew->left, &crew->lock, left);
  tli_mutex_unlock(&crew->lock);
  crew_count(crew, -1, 0);
}

/* ---- messages ---- */

static void message_free(Message *m) {
  if (m == NULL) return;
  tli_parcel_free(m->parcel);
  tli_invitation_release(m->invitation);
  free(m->text);
  free(m);
}

static void queue_init(Queue *q) {
  q->first = NULL;
  q->end = &q->first;
}

static void queue_add(Queue *q, Message *m) {
  m->next = NULL;
  *q->end = m;
  q->end = &m->next;
}

static Message *queue_take(Queue *q) {
  Message *m = q->first;
  if (m == NULL) return NULL;
  q->first = m->next;
  if (q->first == NULL) q->end = &q->first;
  return m;
}

/* ---- pools ---- */

static void pool_release(Pool *p) {
  if (!tli_last_reference(&p->refs)) return;
  for (Message *m; (m = queue_take(&p->answers));) message_free(m);
  for (int i = 0; i < p->n; i++) {
    for (Message *m; (m = queue_take(&p->jobs[i]));) message_free(m);
    tli_condition_destroy(&p->work[i]);
  }
  tli_condition_destroy(&p->arrived);
  tli_mutex_destroy(&p->lock);
  tli_parcel_free(p->first);
  crew_count(p->crew, -1, 0);
  for (int i = 0; i < 2; i++) free(p->paths[i]);
  free(p->work);
  free(p->jobs);
  free(p->busy);
  free(p);
}

/* Returns a new pool. Takes over the parcel, even on failure. */
static Pool *pool_new(tli_Crew *crew, int n, tli_Parcel *first) {
  Pool *p = (Pool *)calloc(1, sizeof *p);
  tli_Condition *work = (tli_Condition *)calloc((size_t)n, sizeof *work);
  Queue *jobs = (Queue *)calloc((size_t)n, sizeof *jobs);
  lua_State **busy = (lua_State **)calloc((size_t)n, sizeof *busy);
  if (p == NULL || work == NULL || jobs == NULL || busy == NULL) {
    free(busy);
    free(p);
    free(work);
    free(jobs);
    tli_parcel_free(first);
    return NULL;
  }
  atomic_init(&p->refs, 1);
  p->n = n;
  p->work = work;
  p->jobs = jobs;
  p->busy = busy;
  p->first = first;
  p->crew = crew;
  crew_count(crew, 1, 0);
  tli_mutex_init(&p->lock);
  tli_condition_init(&p->arrived);
  queue_init(&p->answers);
  for (int i = 0; i < n; i++) {
    tli_condition_init(&work[i]);
    queue_init(&jobs[i]);
  }
  return p;
}

static void end_worker(lua_State *L, lua_Debug *ar) {
  (void)ar;
  luaL_error(L, "data.DataLoader: the worker was stopped");
}

static void end_here(lua_State *L) { lua_sethook(L, end_worker, LUA_MASKCOUNT, 1); }

/* Returns whether any worker is busy. The caller holds the lock. */
static bool any_busy(const Pool *p) {
  for (int i = 0; i < p->n; i++)
    if (p->busy[i]) return true;
  return false;
}

static void pool_stop(Pool *p) {
  int64_t end = tli_now_ns() + STOP_WAIT_NS;
  tli_mutex_lock(&p->lock);
  bool first = !atomic_exchange(&p->stop, true);
  for (int i = 0; i < p->n; i++) tli_condition_broadcast(&p->work[i]);
  for (int64_t left; first && any_busy(p) && (left = end - tli_now_ns()) > 0;)
    tli_condition_wait_for(&p->arrived, &p->lock, left);
  for (int i = 0; first && i < p->n; i++)
    if (p->busy[i]) end_here(p->busy[i]);
  tli_mutex_unlock(&p->lock);
}

/* ---- in the worker's thread ---- */

typedef struct Worker {
  Pool *pool;   /* the pool (owned reference) */
  int id;       /* from 0 */
  lua_State *L; /* the worker's interpreter (owned); NULL until it is opened */
  /* the message that is sent if the worker cannot start (owned). It is allocated in advance, so
  ** that it can be sent even if memory is exhausted; NULL once it was sent */
  Message *failure;
} Worker;

/* The allocator of the worker's interpreter. If the pool is stopping, also sets the hook that ends
** the running code. */
static void *worker_memory(void *context, void *block, size_t old_size, size_t size) {
  const Worker *w = (const Worker *)context;
  (void)old_size;
  if (size == 0) {
    free(block);
    return NULL;
  }
  if (w->L && atomic_load_explicit(&w->pool->stop, memory_order_relaxed)) {
    /* reads the entry without the lock, because only this thread changes it */
    lua_State *running = w->pool->busy[w->id];
    end_here(running ? running : w->L);
  }
  return realloc(block, size);
}

/* Records the worker's running coroutine; NULL if the worker is idle. The caller holds the lock. */
static void set_busy(Worker *w, lua_State *L) {
  w->pool->busy[w->id] = L;
  if (L == NULL && atomic_load(&w->pool->stop)) tli_condition_broadcast(&w->pool->arrived);
}

/* Waits for a job and returns it; the caller owns it. Returns NULL if the pool is stopping. */
static Message *next_job(Worker *w) {
  Pool *p = w->pool;
  tli_mutex_lock(&p->lock);
  set_busy(w, NULL);
  while (!atomic_load(&p->stop) && p->jobs[w->id].first == NULL)
    tli_condition_wait(&p->work[w->id], &p->lock);
  Message *m = atomic_load(&p->stop) ? NULL : queue_take(&p->jobs[w->id]);
  if (m) set_busy(w, w->L);
  tli_mutex_unlock(&p->lock);
  return m;
}

/* Sends an answer. Takes over the message, the parcel and the text, which the caller must not use
** afterwards. */
static void answer(Worker *w, Message *m, tli_Parcel *parcel, char *text) {
  m->parcel = parcel;
  m->text = text;
  m->worker = w->id;
  tli_mutex_lock(&w->pool->lock);
  queue_add(&w->pool->answers, m);
  tli_condition_signal(&w->pool->arrived);
  tli_mutex_unlock(&w->pool->lock);
}

/* stopped() returns whether the pool is stopping, so that long jobs can end early. */
static int worker_stopped(lua_State *L) {
  const Worker *w = (const Worker *)lua_touserdata(L, 1);
  lua_pushboolean(L, atomic_load(&w->pool->stop));
  return 1;
}

/* Replaces os.exit: a worker thread must not end the process. */
static int worker_exit(lua_State *L) {
  return luaL_error(L, "os.exit: a worker cannot end the program; raise an error instead");
}

/* Pushes a text for the error object at index 1. For a table without __tostring, the text lists the
** fields with their names and plain values, because the table's address would mean nothing in
** another thread. */
static const char *push_error_text(lua_State *L) {
  if (!lua_istable(L, 1) || luaL_getmetafield(L, 1, "__tostring") != LUA_TNIL)
    return luaL_tolstring(L, 1, NULL);
  enum { MOST = 8 };
  lua_pushliteral(L, "an error table {");
  int text = lua_gettop(L), shown = 0;
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    bool plain = lua_isstring(L, -1) || lua_isboolean(L, -1);
    if (lua_type(L, -2) == LUA_TSTRING && plain && shown < MOST) {
      const char *value = luaL_tolstring(L, -1, NULL);
      const char *quote = lua_type(L, -2) == LUA_TSTRING ? "\"" : "";
      lua_pushfstring(L, "%s%s%s = %s%s%s", lua_tostring(L, text), shown++ ? ", " : "",
                      lua_tostring(L, -3), quote, value, quote);
      lua_replace(L, text);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  return lua_pushfstring(L, "%s}", lua_tostring(L, text));
}

static int add_traceback(lua_State *L) {
  luaL_traceback(L, L, push_error_text(L), 1);
  return 1;
}

static const char *const path_names[] = {"path", "cpath"};

static void take_paths(lua_State *L, const Pool *p) {
  lua_getglobal(L, "package");
  for (int i = 0; i < 2; i++) {
    if (p->paths[i] == NULL) continue;
    lua_pushstring(L, p->paths[i]);
    lua_setfield(L, -2, path_names[i]);
  }
  lua_pop(L, 1);
}

enum { WORKER = 1, CLASSES, RUN }; /* stack indices of the values in worker_begin and worker_do */

/* Prepares the worker that is the argument: unpacks the first parcel and calls the module's
** function f(stopped, worker, id, ...), which returns the function for jobs. Returns the worker,
** the table of classes, and the function for jobs. */
static int worker_begin(lua_State *L) {
  Worker *w = (Worker *)lua_touserdata(L, WORKER);
  take_paths(L, w->pool);
  lua_newtable(L);
  int n = tli_parcel_unpack(L, w->pool->first, CLASSES, true);
  int module = CLASSES + 1;
  tli_push_environment(L);
  lua_getfield(L, -1, "require");
  lua_pushvalue(L, module);
  lua_call(L, 1, 1);
  lua_replace(L, module); /* the module's function replaces the module on the stack */
  lua_pop(L, 1);
  lua_pushcfunction(L, worker_stopped);
  lua_insert(L, module + 1);
  lua_pushlightuserdata(L, w);
  lua_insert(L, module + 2);
  lua_pushinteger(L, w->id);
  lua_insert(L, module + 3);
  lua_call(L, n + 2, 1);
  return RUN;
}

/* Does a job, and puts the results in place of the arguments into the job's message, which the
** caller sends as the answer. The arguments are (worker, classes, function, job). */
static int worker_do(lua_State *L) {
  Message *m = (Message *)lua_touserdata(L, RUN + 1);
  lua_pushvalue(L, RUN);
  int first = lua_gettop(L);
  int n = tli_parcel_unpack(L, m->parcel, CLASSES, false);
  lua_call(L, n, LUA_MULTRET);
  tli_Parcel *parcel =
      tli_parcel_pack(L, "data.DataLoader: a worker's result", first, CLASSES, false);
  tli_parcel_free(m->parcel);
  m->parcel = parcel;
  return 0;
}

/* Records which coroutine the worker runs. Returns the coroutine that was recorded before. */
static lua_State *set_running(Worker *w, lua_State *L) {
  tli_mutex_lock(&w->pool->lock);
  lua_State *before = w->pool->busy[w->id];
  w->pool->busy[w->id] = L;
  tli_mutex_unlock(&w->pool->lock);
  return before;
}

/* Replaces coroutine.resume and the functions that coroutine.wrap returns. The upvalues are the
** worker and Lua's original function. A function of coroutine.wrap has the coroutine as a third
** upvalue; coroutine.resume gets it as the first argument. */
static int run_coroutine(lua_State *L) {
  Worker *w = (Worker *)lua_touserdata(L, lua_upvalueindex(1));
  bool wrapped = lua_isthread(L, lua_upvalueindex(3));
  lua_State *coroutine = lua_tothread(L, wrapped ? lua_upvalueindex(3) : 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_State *before = set_running(w, coroutine ? coroutine : L);
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  set_running(w, before);
  if (before && atomic_load(&w->pool->stop)) end_here(L);
  if (status == LUA_OK) return lua_gettop(L);
  /* adds the position to the error, as Lua's own function does */
  if (wrapped && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

/* Replaces coroutine.wrap. The upvalues are the worker and Lua's function. */
static int wrap_coroutine(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_getupvalue(L, 2, 1);
  lua_pushcclosure(L, run_coroutine, 3);
  return 1;
}

/* Replaces a function in the table on top of the stack by a C function whose upvalues are the
** worker and the original. */
static void replace_function(lua_State *L, Worker *w, const char *name, lua_CFunction fn) {
  lua_pushlightuserdata(L, w);
  lua_getfield(L, -2, name);
  lua_pushnil(L);
  lua_pushcclosure(L, fn, 3);
  lua_setfield(L, -2, name);
}

/* Opens the libraries of a worker's state. The argument is the worker. */
static int open_state(lua_State *L) {
  Worker *w = (Worker *)lua_touserdata(L, 1);
  luaL_openlibs(L);
  lua_getglobal(L, "coroutine");
  replace_function(L, w, "resume", run_coroutine);
  replace_function(L, w, "wrap", wrap_coroutine);
  lua_getglobal(L, "os");
  lua_pushcfunction(L, worker_exit);
  lua_setfield(L, -2, "exit");
  luaL_requiref(L, "tlua", luaopen_tlua, 0);
  return 0;
}

/* Sends an answer that says that the job has failed with the error object on top of the stack. */
static void answer_failure(Worker *w, lua_State *L, Message *m) {
  const char *text = lua_tostring(L, -1);
  tli_parcel_free(m->parcel);
  answer(w, m, NULL, text ? strdup(text) : NULL);
}

/* Calls the C function to which argument 1 points, with the other arguments. Once tlua is open in
** the state L, the function needs the library's upvalues, so pushing the function needs memory and
** may fail. For that reason it is pushed here, in protected mode. */
static int call_pointed(lua_State *L) {
  lua_CFunction fn = *(const lua_CFunction *)lua_touserdata(L, 1);
  if (tli_state_find(L))
    tli_push_function(L, fn);
  else
    lua_pushcfunction(L, fn);
  lua_replace(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* Calls fn, in protected mode, with the values on the stack from index `first` on. */
static bool call(lua_State *L, lua_CFunction fn, int first, int results) {
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, first);
  lua_pushcfunction(L, call_pointed);
  lua_insert(L, first + 1);
  lua_pushlightuserdata(L, &fn);
  lua_insert(L, first + 2);
  bool ok = lua_pcall(L, lua_gettop(L) - first - 1, results, first) == LUA_OK;
  lua_remove(L, first);
  return ok;
}

static Message *take_failure(Worker *w) {
  Message *m = w->failure;
  w->failure = NULL;
  return m;
}

static void do_jobs(Worker *w, lua_State *L) {
  lua_pushlightuserdata(L, w);
  if (!call(L, worker_begin, 1, RUN)) {
    answer_failure(w, L, take_failure(w));
    return;
  }
  char name[40];
  snprintf(name, sizeof name, "DataLoader worker %d", w->id);
  for (Message *m; (m = next_job(w));) {
    lua_settop(L, RUN);
    for (int i = 1; i <= RUN; i++) lua_pushvalue(L, i);
    lua_pushlightuserdata(L, m);
    tli_profile_join(m->invitation, name);
    if (m->invitation) tli_span_open(TLI_SPAN_DATA, "DataLoader.fetch", NULL, 0);
    bool ok = call(L, worker_do, RUN + 1, 0);
    tli_profile_leave();
    if (ok)
      answer(w, m, m->parcel, NULL);
    else
      answer_failure(w, L, m);
  }
}

static void work(void *context) {
  Worker *w = (Worker *)context;
  tli_Crew *crew = w->pool->crew;
  tli_own_threads(1);
  tli_own_settings();
#if LUA_VERSION_NUM >= 505
  lua_State *L = lua_newstate(worker_memory, w, luaL_makeseed(NULL));
#else
  lua_State *L = lua_newstate(worker_memory, w);
#endif
  if (L == NULL) {
    answer(w, take_failure(w), NULL, NULL);
  } else {
    lua_gc(L, LUA_GCGEN, 0, 0);
    lua_pushlightuserdata(L, w);
    bool opened = call(L, open_state, 1, 0);
    tli_mutex_lock(&w->pool->lock);
    w->L = L;
    set_busy(w, L);
    tli_mutex_unlock(&w->pool->lock);
    if (opened)
      do_jobs(w, L);
    else
      answer_failure(w, L, take_failure(w));
    tli_mutex_lock(&w->pool->lock);
    set_busy(w, NULL);
    tli_mutex_unlock(&w->pool->lock);
    w->L = NULL; /* from now on the allocator sets no hook, so that finalizers can run */
    lua_sethook(L, NULL, 0, 0);
    lua_close(L);
  }
  /* holds a reference that keeps the crew alive until the pool is released */
  crew_count(crew, 1, 0);
  pool_release(w->pool);
  free(w->failure);
  free(w);
  crew_count(crew, -1, -1);
}

/* ---- torch.workers ---- */

static Pool *check_pool(lua_State *L, const char *name) {
  Box *box = (Box *)luaL_testudata(L, 1, POOL);
  if (box == NULL)
    tli_error(L, "%s: expected a pool of workers, got %s", name,
              tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  if (box->pool == NULL) tli_error(L, "%s: the workers were stopped", name);
  if (is_parents(box->pool->crew))
    tli_error(L, "%s: the workers belong to the process that has forked this one; start others",
              name);
  return box->pool;
}

/* Copies the search paths for modules from this state to the pool, for the workers'
** interpreters. */
static void keep_paths(lua_State *L, Pool *p) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "package") == LUA_TTABLE)
    for (int i = 0; i < 2; i++) {
      lua_getfield(L, -1, path_names[i]);
      if (lua_isstring(L, -1) && (p->paths[i] = strdup(lua_tostring(L, -1))) == NULL)
        tli_error(L, "workers: not enough memory");
      lua_pop(L, 1);
    }
  lua_pop(L, 2);
}

static void start_threads(lua_State *L, Pool *p) {
  for (int i = 0; i < p->n; i++) {
    Worker *w = (Worker *)malloc(sizeof *w);
    Message *failure = (Message *)calloc(1, sizeof *failure);
    if (w && failure) {
      *w = (Worker){p, i, NULL, failure};
      atomic_fetch_add(&p->refs, 1);
      crew_count(p->crew, 0, 1);
      if (tli_thread_start(work, w)) continue;
      crew_count(p->crew, 0, -1);
      atomic_fetch_sub(&p->refs, 1);
    }
    free(failure);
    free(w);
    pool_stop(p);
    tli_error(L, "workers: the system starts no more threads (%d of %d run)", i, p->n);
  }
}

/* start(name, n, module, ...) returns a pool of n threads, each of which begins by calling the
** function that the module returns. If a value cannot be packed, the error message begins with
** `name`. */
static int workers_start(lua_State *L) {
  tli_State *S = tli_state(L);
  tli_check_type(L, 1, LUA_TSTRING, "workers.start: name");
  const char *name = lua_tostring(L, 1);
  int64_t n;
  if (!tli_to_whole(L, 2, &n) || n < 1 || n > 1024)
    return tli_error(L, "%s: num_workers: expected 1 to 1024 threads, got %s", name,
                     tli_describe(L, S, 2));
  tli_check_type(L, 3, LUA_TSTRING, "workers.start: module");
  Box *box = (Box *)lua_newuserdatauv(L, sizeof *box, 1);
  box->pool = NULL;
  luaL_setmetatable(L, POOL);
  lua_insert(L, 3);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 3, 1);
  lua_insert(L, 4);
  if (S->crew == NULL || is_parents(S->crew)) S->crew = crew_new();
  if (S->crew == NULL) return tli_error(L, "%s: not enough memory", name);
  int running = crew_running(S->crew), most = tli_limits_threads(L);
  if (most > 0 && n > most - running)
    return tli_error(L,
                     "%s: num_workers: %d threads of this Lua state run, and %d more exceed its "
                     "limit of %d (tl_set_limits)",
                     name, running, (int)n, most);
  tli_Parcel *first = tli_parcel_pack(L, name, 5, 4, true);
  box->pool = pool_new(S->crew, (int)n, first);
  if (box->pool == NULL) return tli_error(L, "%s: not enough memory", name);
  keep_paths(L, box->pool);
  start_threads(L, box->pool);
  lua_settop(L, 3);
  return 1;
}

/* pool:send(worker, job, ...) sends a job to a worker, given the worker's number, which counts from
** 0. `job` is a number that the caller chooses to identify the job; the answer contains it. */
static int pool_send(lua_State *L) {
  Pool *p = check_pool(L, "send");
  int64_t worker, job;
  if (!tli_to_whole(L, 2, &worker) || worker < 0 || worker >= p->n || !tli_to_whole(L, 3, &job))
    return tli_error(L, "send: expected a worker's number and a job's");
  lua_getiuservalue(L, 1, 1);
  lua_insert(L, 4);
  tli_Parcel *parcel = tli_parcel_pack(L, "data.DataLoader", 5, 4, false);
  /* checks again, because a finalizer may have stopped the pool */
  bool stopped = ((const Box *)lua_touserdata(L, 1))->pool == NULL;
  Message *m = stopped ? NULL : (Message *)calloc(1, sizeof *m);
  if (m == NULL) {
    tli_parcel_free(parcel);
    return tli_error(L, "send: %s", stopped ? "the workers were stopped" : "not enough memory");
  }
  m->parcel = parcel;
  m->job = job;
  m->invitation = tli_profile_invite();
  tli_mutex_lock(&p->lock);
  queue_add(&p->jobs[worker], m);
  tli_condition_signal(&p->work[worker]);
  tli_mutex_unlock(&p->lock);
  return 0;
}

/* Waits for an answer and returns it; the caller owns it. Returns NULL after `seconds` (0 means no
** limit), or if the wait is interrupted. */
static Message *wait_for_answer(Pool *p, double seconds) {
  bool ends = seconds > 0 && seconds < 1e9; /* a timeout of more than 30 years means no limit */
  int64_t end = ends ? tli_now_ns() + (int64_t)(seconds * 1e9) : INT64_MAX;
  tli_mutex_lock(&p->lock);
  Message *m = queue_take(&p->answers);
  while (m == NULL && !tli_interrupted()) {
    int64_t left = end - tli_now_ns();
    if (left <= 0) break;
    tli_condition_wait_for(&p->arrived, &p->lock, left < SLICE_NS ? left : SLICE_NS);
    m = queue_take(&p->answers);
  }
  tli_mutex_unlock(&p->lock);
  return m;
}

static int message_gc(lua_State *L) {
  Message **m = (Message **)lua_touserdata(L, 1);
  message_free(*m);
  *m = NULL;
  return 0;
}

/* pool:take(seconds) waits for an answer. Returns the worker's number, the job's number, true and
** the values if the job has succeeded, or the two numbers, false and a message if it has failed.
** Returns nothing after `seconds` (0 means no limit). If a worker could not start, the job's number
** is 0. */
static int pool_take(lua_State *L) {
  check_pool(L, "take");
  double seconds = luaL_optnumber(L, 2, 0);
  Message **holder = (Message **)lua_newuserdatauv(L, sizeof *holder, 0);
  *holder = NULL;
  if (luaL_newmetatable(L, "torch.Message")) {
    lua_pushcfunction(L, message_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_getiuservalue(L, 1, 1);
  int classes = lua_gettop(L);
  Message *m = *holder = wait_for_answer(check_pool(L, "take"), seconds);
  if (m == NULL) return tli_go_on() ? 0 : tli_raise(L);
  lua_pushinteger(L, m->worker);
  lua_pushinteger(L, m->job);
  lua_pushboolean(L, m->parcel != NULL);
  int n = 1;
  if (m->parcel)
    n = tli_parcel_unpack(L, m->parcel, classes, false);
  else
    lua_pushstring(L, m->text ? m->text : "not enough memory");
  *holder = NULL;
  message_free(m);
  return 3 + n;
}

/* pool:stop() tells the workers to end. Waits at most STOP_WAIT_NS for running code, then makes it
** raise errors, and returns while the threads end. */
static int pool_stop_(lua_State *L) {
  Box *box = (Box *)luaL_checkudata(L, 1, POOL);
  Pool *p = box->pool;
  box->pool = NULL;
  if (p == NULL || is_parents(p->crew)) return 0;
  pool_stop(p);
  pool_release(p);
  return 0;
}

/* running() returns the number of workers of this state. */
static int workers_running(lua_State *L) {
  tli_only(L, 0, "workers.running");
  tli_Crew *crew = tli_state(L)->crew;
  int running = 0;
  if (crew && !is_parents(crew)) {
    tli_mutex_lock(&crew->lock);
    running = crew->running;
    tli_mutex_unlock(&crew->lock);
  }
  lua_pushinteger(L, running);
  return 1;
}

void tli_open_workers(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"start", workers_start}, {"running", workers_running}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"send", pool_send},     {"take", pool_take},
                                     {"stop", pool_stop_},    {"__gc", pool_stop_},
                                     {"__close", pool_stop_}, {NULL, NULL}};
  lua_newtable(L);
  tli_set_functions(L, functions);
  lua_setfield(L, -2, "workers");
  tli_open_device_class(L, POOL, methods);
}
