/*
** stream.c - streams and events of the simulated device.
*/
#include <stdlib.h>

#include "kernels/sim/sim.h"

#define URGENT (1 + SIM_STREAMS / 2) /* number of the first stream of high priority */

/* ---- streams ----------------------------------------------------------------------- */

tl_Stream *sim_default_stream(tl_Device device) { return &sim_device(device.index)->streams[0]; }

/* Returns a stream, in turn. The priority does not change the order of work, which is random in any
** case. */
tl_Stream *sim_stream(tl_Device device, int priority) {
  sim_lock();
  sim_Device *d = sim_device(device.index);
  int urgent = priority < 0, first = urgent ? URGENT : 1;
  tl_Stream *stream = &d->streams[first + d->next_stream[urgent]++ % (SIM_STREAMS / 2)];
  stream->priority = -urgent;
  sim_unlock();
  return stream;
}

void sim_priority_range(tl_Device device, int *least, int *greatest) {
  (void)device;
  *least = 0;
  *greatest = -1;
}

int64_t sim_stream_id(const tl_Stream *stream) { return stream->id; }

int sim_stream_priority(const tl_Stream *stream) { return stream->priority; }

bool sim_stream_sync(tl_Stream *stream) {
  sim_lock();
  bool ok = sim_locked_finish(stream, stream->put);
  sim_unlock();
  return ok;
}

/* Stores in *done whether the stream is idle. Sometimes runs a command of the stream, so that a
** loop of queries ends. */
bool sim_stream_query(tl_Stream *stream, bool *done) {
  sim_lock();
  bool ok = sim_locked_may_go("query") && sim_locked_not_recording(stream, "asking a stream");
  if (ok && stream->done < stream->put && sim_locked_random() % 4 == 0)
    ok = sim_locked_drain(stream, stream->done + 1);
  *done = stream->done == stream->put;
  ok = ok && sim_locked_report(stream->device);
  sim_unlock();
  return ok;
}

bool sim_sync(tl_Device device) {
  sim_lock();
  sim_Device *d = sim_device(device.index);
  d->waits++;
  bool ok = sim_locked_may_go("synchronize") && sim_locked_finish_device(d);
  sim_unlock();
  return ok;
}

bool sim_stream_wait(tl_Stream *stream, tl_Event *event) {
  sim_lock();
  bool ok = sim_locked_may_go("stream wait");
  if (ok && (stream->recording || event->capture)) {
    ok = sim_locked_record_wait(stream, event);
  } else if (ok && event->recorded > event->reached) {
    sim_Command what = {.point = {.event = event, .ticket = event->recorded}};
    ok = sim_locked_put(stream, SIM_WAIT, &what, NULL, 0);
  }
  sim_unlock();
  return ok;
}

/* ---- events ------------------------------------------------------------------------ */

tl_Event *sim_event(tl_Device device, int flags) {
  tl_Event *event = calloc(1, sizeof *event);
  if (event == NULL) {
    sim_host->fail(TL_EMEM, "sim: out of memory");
    return NULL;
  }
  event->refs = 1;
  event->device = device;
  event->timing = flags & TL_EVENT_TIMING;
  return event;
}

void sim_event_free(tl_Event *event) {
  sim_lock();
  sim_locked_event_drop(event);
  sim_unlock();
}

bool sim_event_record(tl_Event *event, tl_Stream *stream) {
  sim_lock();
  bool ok = sim_locked_may_go("event record");
  if (ok && stream->recording) {
    ok = sim_locked_record_event(event, stream);
  } else if (ok) {
    sim_Command what = {.point = {.event = event, .ticket = ++event->recorded}};
    event->stream = stream;
    event->capture = 0;
    ok = sim_locked_put(stream, SIM_RECORD, &what, NULL, 0);
  }
  sim_unlock();
  return ok;
}

/* Returns false with a message if an event was recorded in a capture, because such an event has no
** time. */
static bool locked_outside(const tl_Event *event, const char *what) {
  return event->capture == 0 ||
         sim_host->fail(TL_EDEVICE, "sim: %s: the event was recorded while a graph was captured",
                        what);
}

bool sim_event_sync(tl_Event *event) {
  sim_lock();
  sim_Device *device = sim_device(event->device.index);
  device->waits++;
  bool ok = sim_locked_may_go("event synchronize") && locked_outside(event, "waiting") &&
            sim_locked_finish_event(event) && sim_locked_report(device);
  sim_unlock();
  return ok;
}

bool sim_event_query(tl_Event *event, bool *done) {
  sim_lock();
  bool ok = locked_outside(event, "asking an event");
  if (ok && event->reached < event->recorded && sim_locked_random() % 4 == 0)
    ok = sim_locked_drain(event->stream, event->stream->done + 1);
  *done = event->reached >= event->recorded;
  sim_unlock();
  return ok;
}

static bool locked_elapsed(const tl_Event *start, const tl_Event *end, double *milliseconds) {
  static const char name[] = "elapsed_time: both events must have been";
  if (!locked_outside(start, "elapsed_time") || !locked_outside(end, "elapsed_time")) return false;
  if (!start->timing || !end->timing)
    return sim_host->fail(TL_EARG, "%s made with enable_timing = true", name);
  if (start->recorded == 0 || end->recorded == 0)
    return sim_host->fail(TL_EARG, "%s recorded", name);
  if (start->reached < start->recorded || end->reached < end->recorded)
    return sim_host->fail(TL_EARG, "%s completed; synchronize first", name);
  *milliseconds = (end->time - start->time) * 1e3;
  return true;
}

bool sim_event_elapsed(tl_Event *start, tl_Event *end, double *milliseconds) {
  sim_lock();
  bool ok = locked_elapsed(start, end, milliseconds);
  sim_unlock();
  return ok;
}
