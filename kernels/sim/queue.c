/*
** queue.c - the queues of commands of all streams, and the thread that runs the commands.
**
** The thread sleeps until the host waits for something, so that work is done as late as the rules
** allow. Then it runs commands, one at a time, until the host's request is fulfilled: either the
** next command that the request needs, or the next command of a random stream.
*/
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/sim/sim.h"

/* The largest number of queued commands of a stream. If a queue is full, the host must wait before
** it queues another command. */
#define MOST_QUEUED 512

/* A request of the host, which waits until the thread has run the first `upto` commands of a
** stream. */
typedef struct Request {
  tl_Stream *stream;
  uint64_t upto;
  bool done, stuck;
} Request;

static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER, worked = PTHREAD_COND_INITIALIZER;
static bool started;
/* the request that the thread is working on; NULL while the thread sleeps */
static Request *current;

/* ---- queues ----------------------------------------------------------------------- */

static void append(sim_Queue *queue, sim_Command *command) {
  if (queue->first == NULL) queue->last = &queue->first;
  *queue->last = command;
  queue->last = &command->next;
  queue->length++;
}

static sim_Command *take(sim_Queue *queue) {
  sim_Command *command = queue->first;
  queue->first = command->next;
  command->next = NULL;
  queue->length--;
  return command;
}

static void command_free(sim_Command *command) {
  if (command->kind == SIM_RECORD || command->kind == SIM_WAIT)
    sim_locked_event_drop(command->point.event);
  free(command);
}

void sim_queue_clear(sim_Queue *queue) {
  while (queue->first) command_free(take(queue));
}

static sim_Command *command_new(sim_Kind kind, const sim_Command *what, const void *call,
                                size_t size) {
  sim_Command *command = malloc(sizeof *command + size);
  if (command == NULL) {
    sim_host->fail(TL_EMEM, "sim: out of memory");
    return NULL;
  }
  *command = *what;
  command->kind = kind;
  command->next = NULL;
  command->size = size;
  if (size > 0) memcpy(command->call, call, size);
  if (kind == SIM_RECORD || kind == SIM_WAIT) command->point.event->refs++;
  return command;
}

sim_Command *sim_queue_add(sim_Queue *queue, sim_Kind kind, const sim_Command *what,
                           const void *call, size_t size) {
  sim_Command *command = command_new(kind, what, call, size);
  if (command) append(queue, command);
  return command;
}

/* If the stream's queue is full, runs some of its commands to make room. */
static bool relieve(tl_Stream *stream) {
  return stream->queue.length <= MOST_QUEUED ||
         sim_locked_drain(stream, stream->put - MOST_QUEUED / 2);
}

bool sim_locked_put(tl_Stream *stream, sim_Kind kind, const sim_Command *what, const void *call,
                    size_t size) {
  if (stream->recording) return sim_locked_record(stream, kind, what, call, size);
  return sim_locked_put_free(stream, kind, what, call, size) && relieve(stream);
}

bool sim_locked_put_free(tl_Stream *stream, sim_Kind kind, const sim_Command *what,
                         const void *call, size_t size) {
  if (sim_queue_add(&stream->queue, kind, what, call, size) == NULL) return false;
  stream->put++;
  return true;
}

bool sim_locked_put_all(tl_Stream *stream, sim_Queue *commands) {
  stream->put += (uint64_t)commands->length;
  while (commands->first) append(&stream->queue, take(commands));
  return relieve(stream);
}

/* ---- the thread -------------------------------------------------------------------- */

static int64_t nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double seconds(void) { return (double)nanoseconds() * 1e-9; }

/* the function to which activities are reported; NULL if there is none (guarded by the lock) */
static void (*told)(const tl_Activity *activity);

/* Sets the function that receives activities; NULL stops the reports. Commands are reported before
** the lock is released, so every command that has run has already been reported. */
bool sim_activities(void (*note)(const tl_Activity *activity), int64_t *now) {
  sim_lock();
  told = note;
  *now = nanoseconds();
  sim_unlock();
  return true;
}

/* Reports a kernel or a copy. Overwriting freed memory is not reported, because the program has not
** asked for it. */
static void tell(const tl_Stream *stream, const sim_Command *command, int64_t begin) {
  bool kernel = command->kind == SIM_KERNEL;
  if (told == NULL || (!kernel && command->kind != SIM_COPY)) return;
  told(&(tl_Activity){.name = kernel ? command->kernel.name : "copy",
                      .device = {TL_SIM, (int8_t)stream->device->index},
                      .stream_id = stream->id,
                      .begin = begin,
                      .end = nanoseconds()});
}

/* Returns whether the next command of the stream can run now. */
static bool runnable(const tl_Stream *stream) {
  const sim_Command *next = stream->queue.first;
  return next && (next->kind != SIM_WAIT || next->point.event->reached >= next->point.ticket);
}

/* Returns the stream whose next command must run before `stream` can continue. This is `stream`
** itself. If `stream` waits for an event, it is the stream that records the event; if that stream
** waits as well, the search goes on from there. Returns NULL if the stream that is found has no
** commands. */
static tl_Stream *needed(tl_Stream *stream) {
  for (int steps = 0; stream && steps < 64; steps++) {
    if (runnable(stream)) return stream;
    sim_Command *next = stream->queue.first;
    stream = next ? next->point.event->stream : NULL;
  }
  return NULL;
}

/* Returns a random stream whose next command can run; NULL if there is none. */
static tl_Stream *drawn(void) {
  tl_Stream *found = NULL;
  uint64_t seen = 0;
  for (int d = 0; d < sim_device_count(); d++)
    for (int s = 0; s < SIM_STREAMS; s++) {
      tl_Stream *stream = &sim_device(d)->streams[s];
      if (runnable(stream) && sim_locked_random() % ++seen == 0) found = stream;
    }
  return found;
}

static void note_failure(sim_Device *device) {
  if (device->failed != TL_OK || device->fault.kind != TLK_NO_FAULT) return;
  device->failed = sim_host->error_kind();
  strncpy(device->failure, sim_host->error(), sizeof device->failure - 1);
}

/* run_kernel expects the tli_Iter at the same offset in all calls that have one */
_Static_assert(offsetof(struct tlk_gather, index.it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_scatter, index.it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_pointwise, it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_fused, it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_fill, it) == offsetof(struct tlk_copy, it), "");

/* Runs a kernel in a context of its own, without the lock. Returns false if the kernel failed
** without a fault. Calls are flat structs. Each word of a struct whose value is an address in a
** device's memory is taken for a pointer, and is translated for the kernel. */
static bool run_kernel(sim_Command *command, const tlk_Context *cx) {
  for (char *at = command->call; at + sizeof(uintptr_t) <= command->call + command->size;
       at += sizeof(uintptr_t)) {
    uintptr_t word;
    memcpy(&word, at, sizeof word);
    word = sim_reachable(word);
    memcpy(at, &word, sizeof word);
  }
  memcpy(command->call, &cx, sizeof cx);
  if (command->kernel.iter) {
    tli_Iter *it = &((struct tlk_copy *)(void *)command->call)->it;
    for (int k = 0; k < it->nargs; k++)
      if (it->args[k].data == NULL) it->args[k].data = (char *)&it->args[k].number;
  }
  return command->kernel.run(command->call) || cx->fault->kind != TLK_NO_FAULT;
}

static void *reachable(const void *address) { return (void *)sim_reachable((uintptr_t)address); }

/* Overwrites bytes with 0xfb, which gives a huge finite number, not NaN, in every floating type. */
static void poison(void *data, int64_t bytes) { memset(reachable(data), 0xfb, (size_t)bytes); }

void sim_locked_poison_now(sim_Device *device) {
  for (int s = 0; s < SIM_STREAMS; s++)
    for (sim_Command *c = device->streams[s].queue.first; c; c = c->next) {
      if (c->kind != SIM_POISON) continue;
      poison(c->copy.dst, c->copy.bytes);
      c->copy.bytes = 0;
    }
}

static void copy_bytes(const sim_Command *c) {
  const void *from = c->copy.src ? reachable(c->copy.src) : (const void *)c->call;
  memmove(reachable(c->copy.dst), from, (size_t)c->copy.bytes);
}

static void work_off(tl_Stream *stream) {
  sim_Device *device = stream->device;
  sim_Command *command = take(&stream->queue);
  tlk_Fault fault = device->fault;
  tlk_Context cx = {.device = {TL_SIM, (int8_t)device->index}, .stream = stream, .fault = &fault};
  bool ok = true;
  int64_t begin = nanoseconds();
  sim_unlock();
  if (command->kind == SIM_KERNEL)
    ok = run_kernel(command, &cx);
  else if (command->kind == SIM_COPY)
    copy_bytes(command);
  else if (command->kind == SIM_POISON)
    poison(command->copy.dst, command->copy.bytes);
  sim_lock();
  tell(stream, command, begin);
  if (device->fault.kind == TLK_NO_FAULT) device->fault = fault;
  if (!ok) note_failure(device);
  if (command->kind == SIM_RECORD && command->point.event->reached < command->point.ticket) {
    command->point.event->reached = command->point.ticket;
    command->point.event->time = seconds();
  }
  stream->done++;
  command_free(command);
}

/* Runs commands until the request is fulfilled, or until no stream can continue. */
static void serve(Request *r) {
  while (r->stream->done < r->upto && !r->stuck) {
    tl_Stream *next = sim_locked_random() % 2 ? needed(r->stream) : NULL;
    if (next == NULL) next = drawn();
    if (next)
      work_off(next);
    else
      r->stuck = true;
  }
  r->done = true;
}

static void *work(void *unused) {
  (void)unused;
  sim_lock();
  for (;;) {
    while (current == NULL) pthread_cond_wait(&wanted, sim_mutex());
    serve(current);
    current = NULL;
    pthread_cond_broadcast(&worked);
  }
  return NULL;
}

static bool start(void) {
  pthread_t thread;
  if (started) return true;
  if (pthread_create(&thread, NULL, work, NULL) != 0)
    return sim_host->fail(TL_EDEVICE, "sim: the device's thread could not be started");
  pthread_detach(thread);
  return started = true;
}

bool sim_locked_drain(tl_Stream *stream, uint64_t upto) {
  Request r = {.stream = stream, .upto = upto};
  if (stream->done >= upto) return true;
  if (!sim_locked_is_here("waiting") || !start()) return false;
  while (current) pthread_cond_wait(&worked, sim_mutex());
  current = &r;
  pthread_cond_signal(&wanted);
  while (!r.done) pthread_cond_wait(&worked, sim_mutex());
  return !r.stuck ||
         sim_host->fail(TL_EDEVICE, "sim: a stream waits for an event that nothing will record");
}

/* ---- waiting ----------------------------------------------------------------------- */

bool sim_locked_not_recording(const tl_Stream *stream, const char *what) {
  return stream->recording == NULL ||
         sim_host->fail(TL_EDEVICE, "sim: %s: not possible while a graph is captured", what);
}

bool sim_locked_finish(tl_Stream *stream, uint64_t upto) {
  if (!sim_locked_may_go("waiting") || !sim_locked_not_recording(stream, "waiting for the device"))
    return false;
  stream->device->waits++;
  return sim_locked_drain(stream, upto) && sim_locked_report(stream->device);
}

bool sim_locked_fetch(tl_Stream *stream, const sim_Command *copy) {
  return sim_locked_finish(stream, stream->put) &&
         sim_locked_put(stream, SIM_COPY, copy, NULL, 0) && sim_locked_drain(stream, stream->put);
}

bool sim_locked_finish_device(sim_Device *device) {
  bool ok = true;
  for (int s = 0; s < SIM_STREAMS && ok; s++)
    ok = sim_locked_not_recording(&device->streams[s], "waiting for the device");
  for (int s = 0; s < SIM_STREAMS && ok; s++)
    ok = sim_locked_drain(&device->streams[s], device->streams[s].put);
  return ok && sim_locked_report(device);
}

/* Finishes the work before an event. Finishes all work on the event's stream, because the commands
** up to the event are not counted separately. */
bool sim_locked_finish_event(tl_Event *event) {
  if (event->reached >= event->recorded) return true;
  return sim_locked_drain(event->stream, event->stream->put);
}

void sim_locked_event_drop(tl_Event *event) {
  if (--event->refs == 0) free(event);
}
