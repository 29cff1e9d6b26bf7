// Streams and events. Work is queued and runs as late as the API allows: when the host waits for it, or for
// work of another stream that must follow it. A query runs one piece of work and then answers, so that
// polling comes to an end.
#include "driver.h"
#include <algorithm>
#include <chrono>

namespace emu {

namespace {

std::vector<Event*> events;
u64 draws;

// A small generator of its own keeps the schedule of blocks independent of the calls of the host.
bool chance(unsigned one_in) {
  u64 x = (++draws + settings.seed) * 0x9e3779b97f4a7c15;
  x ^= x >> 32;
  return x * 0xd1b54a32d192ed03 % 0x100000000 % one_in == 0;
}

Stream& null_stream(Context& c) {
  if (!c.null_stream) {
    c.null_stream = new Stream(c, true);
    c.streams.push_back(c.null_stream);
  }
  return *c.null_stream;
}

void run_one(Stream& s) {
  Work w = std::move(s.queue.front());
  s.queue.pop_front();
  for (auto& t : w.after) run_until(t);
  if (!s.context->error) w.run(*s.context);
  s.done++;
}

bool is_event(Event* e) { return std::find(events.begin(), events.end(), e) != events.end(); }

double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// forget_finished drops destroyed streams whose work is done. They are not freed: tickets may name them.
void forget_finished(Context& c) {
  auto finished = [](Stream* s) { return s->destroyed && s->queue.empty(); };
  c.streams.erase(std::remove_if(c.streams.begin(), c.streams.end(), finished), c.streams.end());
}

}  // namespace

Stream* stream_of(void* handle) {
  const auto h = (uintptr_t)handle;
  if (h <= 2) return &null_stream(*current);  // the null stream by its three names: 0, legacy and per thread
  for (auto& c : contexts)
    for (Stream* s : c.streams)
      if (s == handle && !s->destroyed) return s;
  explain(kInvalidHandle, "no such stream");
  return nullptr;
}

// The null stream follows all blocking streams of its context, and they follow it.
Ticket submit(Stream& s, std::function<void(Context&)> run, const Ticket& first) {
  if (s.capture) {
    s.capture->work.push_back(std::move(run));
    return {};
  }
  Context& c = *s.context;
  Work w{std::move(run), {}};
  if (!is_done(first)) w.after.push_back(first);
  Stream& null = null_stream(c);
  if (&s == &null) {
    for (Stream* other : c.streams)
      if (other != &s && other->blocking && other->issued > other->done) w.after.push_back({other, other->issued});
  } else if (s.blocking && null.issued > null.done) {
    w.after.push_back({&null, null.issued});
  }
  s.queue.push_back(std::move(w));
  s.issued++;
  const Ticket t{&s, s.issued};
  if (settings.streams == When::early) run_until(t);
  return t;
}

bool is_done(const Ticket& t) { return !t.stream || t.stream->done >= t.number; }

void run_until(const Ticket& t) {
  while (!is_done(t) && !t.stream->queue.empty()) run_one(*t.stream);
}

void drain(Stream& s) { run_until({&s, s.issued}); }

void drain(Context& c) {
  for (size_t i = 0; i < c.streams.size(); i++) drain(*c.streams[i]);
  forget_finished(c);
}

void advance_streams() {
  if (settings.streams != When::random) return;
  for (auto& c : contexts)
    for (size_t i = 0; i < c.streams.size(); i++)
      while (!c.streams[i]->queue.empty() && chance(3)) run_one(*c.streams[i]);
}

namespace {

Result create(void** handle, unsigned flags, const char* call = __builtin_FUNCTION()) {
  return in_context([&](Context& c) {
    if (flags > 1) return kInvalidValue;
    null_stream(c);
    auto* s = new Stream(c, flags == 0);  // 1: CU_STREAM_NON_BLOCKING
    c.streams.push_back(s);
    *handle = s;
    return kSuccess;
  }, call);
}

template <class F> Result with_event(void* handle, F body, const char* call = __builtin_FUNCTION()) {
  return in_context([&](Context&) {
    auto* e = static_cast<Event*>(handle);
    return is_event(e) ? body(*e) : explain(kInvalidHandle, "no such event");
  }, call);
}

// poll runs one piece of work before a ticket that is not done.
Result poll(const Ticket& t) {
  if (is_done(t)) return kSuccess;
  run_one(*t.stream);
  return kNotReady;
}

}  // namespace
}  // namespace emu

using namespace emu;

API cuStreamCreate(void** stream, unsigned flags) { return create(stream, flags); }

API cuStreamDestroy_v2(void* stream) {
  return on_stream(stream, [&](Stream& s) {
    if ((uintptr_t)stream <= 2) return kInvalidHandle;
    s.destroyed = true;
    forget_finished(*s.context);
    return kSuccess;
  });
}

API cuStreamQuery(void* stream) {
  return on_stream(stream, [](Stream& s) { return poll({&s, s.issued}); });
}

API cuStreamSynchronize(void* stream) {
  return on_stream(stream, [](Stream& s) {
    // The null stream is done when the streams that it follows are.
    if (&s == s.context->null_stream) submit(s, [](Context&) {});
    if (settings.blocking && !(s.context->flags & 4)) return explain(kNotSupported, "a wait for a stream spins");
    drain(s);
    return kSuccess;
  });
}

API cuStreamWaitEvent(void* stream, void* event, unsigned) {
  return on_stream(stream, [&](Stream& s) {
    auto* e = static_cast<Event*>(event);
    if (!is_event(e)) return explain(kInvalidHandle, "no such event");
    submit(s, [](Context&) {}, e->ticket);
    return kSuccess;
  });
}

API cuStreamWriteValue32_v2(void* stream, Address address, unsigned value, unsigned) {
  return on_stream(stream, [&](Stream& s) {
    auto* word = reinterpret_cast<unsigned*>(address);
    submit(s, [=](Context& c) {
      if (!in_arena(word) && !is_pinned(word, 4)) return latch(c, kIllegalAddress, "a write to freed pinned memory");
      __atomic_store_n(word, value, __ATOMIC_RELEASE);
    });
    return kSuccess;
  });
}

API cuEventCreate(void** event, unsigned flags) {
  return in_context([&](Context& c) {
    events.push_back(new Event{&c, {}, !(flags & 2), (flags & 1) != 0});  // BLOCKING_SYNC 1, DISABLE_TIMING 2
    *event = events.back();
    c.events++;
    return kSuccess;
  });
}

// A destroyed event is never freed: work in a stream may still set its time.
API cuEventDestroy_v2(void* event) {
  return with_event(event, [&](Event& e) {
    events.erase(std::find(events.begin(), events.end(), &e));
    e.context->events--;
    return kSuccess;
  });
}

API cuEventRecord(void* event, void* stream) {
  return with_event(event, [&](Event& e) {
    Stream* s = stream_of(stream);
    if (!s) return kInvalidHandle;
    if (s->context != e.context)
      return explain(kInvalidHandle, "the event and the stream belong to different contexts");
    if (s->capture) return explain(kCaptureUnsupported, "an event in a stream that is captured");
    e.ticket = submit(*s, [p = &e](Context&) { p->milliseconds = now(); });
    return kSuccess;
  });
}

API cuEventQuery(void* event) {
  return with_event(event, [](Event& e) { return poll(e.ticket); });
}

API cuEventSynchronize(void* event) {
  return with_event(event, [](Event& e) {
    if (settings.blocking && !e.blocking) return explain(kNotSupported, "a wait for an event spins");
    run_until(e.ticket);
    return kSuccess;
  });
}

API cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  return with_event(start, [&](Event& a) {
    auto* b = static_cast<Event*>(end);
    if (!is_event(b) || !a.timed || !b->timed || !a.ticket.stream || !b->ticket.stream)
      return explain(kInvalidHandle, "an event without a time");
    if (!is_done(a.ticket) || !is_done(b->ticket)) return kNotReady;
    *milliseconds = (float)(b->milliseconds - a.milliseconds);
    return kSuccess;
  });
}
