// Errors: their names and texts, with a sentence of the emulator if there is one.
#include "driver.h"

namespace emu {

std::string explanation;
Result explained = kSuccess;

Result explain(Result error, const std::string& why) {
  explanation = why;
  explained = error;
  return error;
}

void latch(Context& c, Result error, const std::string& why) {
  if (!c.error) c.error = explain(error, why);
}

namespace {

struct Text {
  const char *name, *text;
};

const std::map<int, Text> texts = {
    {kSuccess, {"CUDA_SUCCESS", "no error"}},
    {kInvalidValue, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {kOutOfMemory, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {kNotInitialized, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {4, {"CUDA_ERROR_DEINITIALIZED", "driver shutting down"}},
    {46, {"CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"}},
    {kNoDevice, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {kInvalidDevice, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {kInvalidImage, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {kInvalidContext, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {kNoBinaryForGpu, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
    {214, {"CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"}},
    {kPeerAccessUnsupported,
     {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"}},
    {kInvalidPtx, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
    {221, {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"}},
    {kInvalidHandle, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {kNotFound, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {kNotReady, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {kIllegalAddress, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {kLaunchOutOfResources, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
    {kLaunchTimeout, {"CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"}},
    {kPeerAccessAlreadyEnabled, {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"}},
    {kPeerAccessNotEnabled, {"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"}},
    {kPrimaryContextActive, {"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "primary context active"}},
    {709, {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"}},
    {714, {"CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"}},
    {kMisalignedAddress, {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"}},
    {kLaunchFailed, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {kNotSupported, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
    {802, {"CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"}},
    {kCaptureUnsupported,
     {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
    {kCaptureInvalidated,
     {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
    {kCaptureWrongThread,
     {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
      "attempt to terminate a thread-local capture sequence from another thread"}},
    {999, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
};

}  // namespace
}  // namespace emu

using namespace emu;

API cuGetErrorName(int error, const char** name) {
  auto it = texts.find(error);
  *name = it == texts.end() ? nullptr : it->second.name;
  return it == texts.end() ? kInvalidValue : kSuccess;
}

API cuGetErrorString(int error, const char** text) {
  std::lock_guard<std::mutex> hold(api);
  static std::map<std::string, int> texts_returned;  // never freed: callers hold pointers
  auto it = texts.find(error);
  if (it == texts.end()) {
    *text = nullptr;
    return kInvalidValue;
  }
  std::string s = it->second.text;
  if (error && error == explained && !explanation.empty()) s += " (emulator: " + explanation + ")";
  *text = texts_returned.emplace(s, 0).first->first.c_str();
  return kSuccess;
}
