/*
** transfer.c - copies between the memory of the simulated device and of the host, and between
** simulated devices.
*/
#include "kernels/sim/sim.h"

/* Copies between two devices. The receiving stream first waits for earlier commands of the sending
** stream. The sending stream waits for the copy before it runs later commands, because they may
** free the source. */
static bool between(const struct tlk_transfer *call, tl_Stream *from) {
  tl_Stream *to = call->cx->stream;
  if (!sim_locked_not_recording(to, "a copy between devices") ||
      !sim_locked_not_recording(from, "a copy between devices"))
    return false;
  tl_Event *before = sim_event(call->from, 0), *after = sim_event(call->to, 0);
  bool ok = before && after;
  if (ok) {
    before->recorded = after->recorded = 1;
    before->stream = from;
    after->stream = to;
    sim_Command first = {.point = {.event = before, .ticket = 1}};
    sim_Command last = {.point = {.event = after, .ticket = 1}};
    sim_Command copy = {.copy = {call->dst, call->src, call->bytes}};
    ok = sim_locked_put(from, SIM_RECORD, &first, NULL, 0) &&
         sim_locked_put(to, SIM_WAIT, &first, NULL, 0) &&
         sim_locked_put(to, SIM_COPY, &copy, NULL, 0) &&
         sim_locked_put(to, SIM_RECORD, &last, NULL, 0) &&
         sim_locked_put(from, SIM_WAIT, &last, NULL, 0);
  }
  if (before) sim_locked_event_drop(before);
  if (after) sim_locked_event_drop(after);
  return ok;
}

/* Copies from or to the host. The rules are those of a GPU's driver. Pageable memory is read
** immediately, and a copy to pageable memory is finished when the call returns. Pinned memory is
** read and written in the order of the stream. */
static bool with_host(const struct tlk_transfer *call) {
  tl_Stream *stream = call->cx->stream;
  sim_Command copy = {.copy = {call->dst, call->src, call->bytes}};
  if (!call->async &&
      !sim_locked_not_recording(stream, "a copy from or to memory that is not pinned"))
    return false;
  if (call->to.type == TL_SIM && !call->async) {
    /* the command holds a copy of the bytes, so it does not need their address */
    copy.copy.src = NULL;
    return sim_locked_put(stream, SIM_COPY, &copy, call->src, (size_t)call->bytes);
  }
  if (call->async) return sim_locked_put(stream, SIM_COPY, &copy, NULL, 0);
  return sim_locked_fetch(stream, &copy);
}

bool sim_transfer(const struct tlk_transfer *call) {
  sim_lock();
  bool ok = sim_locked_may_go("copy");
  if (ok && call->to.type == TL_SIM && call->from.type == TL_SIM && call->from_stream) {
    if (call->from_stream != call->cx->stream)
      ok = between(call, call->from_stream);
    else
      ok = sim_locked_put(call->cx->stream, SIM_COPY,
                          &(sim_Command){.copy = {call->dst, call->src, call->bytes}}, NULL, 0);
  } else if (ok) {
    ok = with_host(call);
  }
  sim_unlock();
  return ok;
}
