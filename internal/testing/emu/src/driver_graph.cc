// Graphs: launches of a stream that are captured, and then run again and again. Only what a capture may contain for
// certain is let through: launches of kernels. Other calls of the thread that captures fail, and so does its capture.
#include "driver.h"
#include <set>

namespace emu {

thread_local Stream* capturing;

namespace {

// The handles of graphs, and of those that can be launched.
std::set<Graph*> graphs;

template <class F> Result with_graph(void* handle, F body, const char* call = __builtin_FUNCTION()) {
  return in_context([&](Context&) {
    auto* g = static_cast<Graph*>(handle);
    return graphs.count(g) ? body(g) : explain(kInvalidHandle, "no such graph");
  }, call);
}

void* keep(Graph* g) {
  graphs.insert(g);
  g->context->graphs++;
  return g;
}

Result destroy(void* handle, const char* call = __builtin_FUNCTION()) {
  return with_graph(handle, [](Graph* g) {
    graphs.erase(g);
    g->context->graphs--;
    delete g;
    return kSuccess;
  }, call);
}

}  // namespace

Result refuse_in_capture(const char* call) {
  static const std::set<std::string> captured{"cuLaunchKernel", "cuStreamEndCapture"};
  if (!capturing || !capturing->capture || captured.count(call)) return kSuccess;
  capturing->capture->invalid = true;
  return explain(kCaptureUnsupported, std::string(call) + " by a thread that captures a stream");
}

}  // namespace emu

using namespace emu;

API cuStreamBeginCapture_v2(void* stream, int mode) {
  return on_stream(stream, [&](Stream& s) {
    if (mode != 1) return explain(kInvalidValue, "the mode of a capture is not CU_STREAM_CAPTURE_MODE_THREAD_LOCAL");
    if ((uintptr_t)stream <= 2) return explain(kCaptureUnsupported, "the null stream cannot be captured");
    s.capture = new Graph{s.context, false, {}};
    capturing = &s;
    return kSuccess;
  });
}

API cuStreamEndCapture(void* stream, void** graph) {
  return in_context([&](Context&) {
    Stream* s = stream_of(stream);
    if (!s) return kInvalidHandle;
    if (!s->capture) return explain(kInvalidValue, "the stream is not captured");
    if (capturing != s) return explain(kCaptureWrongThread, "another thread began the capture");
    Graph* g = s->capture;
    s->capture = nullptr;
    capturing = nullptr;
    if (g->invalid) {
      delete g;
      *graph = nullptr;
      return explain(kCaptureInvalidated, "a call was refused during the capture");
    }
    *graph = keep(g);
    return kSuccess;
  });
}

API cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  return with_graph(graph, [&](Graph* g) {
    *exec = keep(new Graph(*g));
    return kSuccess;
  });
}

API cuGraphLaunch(void* exec, void* stream) {
  return with_graph(exec, [&](Graph* g) {
    Stream* s = stream_of(stream);
    if (!s || s->context != g->context) return explain(kInvalidHandle, "no stream of the graph's context");
    for (auto& run : g->work) submit(*s, run);
    return kSuccess;
  });
}

API cuGraphDestroy(void* graph) { return destroy(graph); }
API cuGraphExecDestroy(void* exec) { return destroy(exec); }
