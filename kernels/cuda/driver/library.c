//go:build cuda && cgo && linux

// Every function of the driver API that this program refers to, defined here and passed on to the driver that is
// found when the program runs. So nothing of CUDA is needed to build or to start it. The driver is looked for at
// the first call of any function:
//
//   1. $WEFT_CUDA_DRIVER, if set, and nothing else;
//   2. libcuda.so.1, as the dynamic loader finds it;
//   3. the same in the folders below, where some systems have it without telling the loader.
//
// The definitions are hidden: they serve this program alone and never stand in for the driver's in a library that
// was itself linked with one.
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#pragma GCC visibility push(hidden)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static weft_driver_state state = {CUDA_ERROR_NO_DEVICE, "", ""};
static char detail[512];
static char path[512];

static void open_library(const char *name) {
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library) {
		snprintf(path, sizeof path, "%s", name);
		state.library = path;
	} else if (!detail[0]) {
		snprintf(detail, sizeof detail, "%s", dlerror());
	}
}

// Where drivers are that the dynamic loader does not know of.
static const char *const folders[] = {
	"/usr/lib/wsl/lib",          // Windows
	"/usr/local/nvidia/lib64",   // containers that mount the host's driver
	"/usr/local/nvidia/lib",
	"/run/opengl-driver/lib",    // NixOS
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu", // containers with a driver of their own
	"/run/nvidia/driver/usr/lib64",
};

static void open_driver(void) {
	const char *chosen = getenv("WEFT_CUDA_DRIVER");
	state.detail = detail;
	if (chosen && *chosen) {
		open_library(chosen);
	} else {
		open_library("libcuda.so.1");
		for (size_t i = 0; !library && i < sizeof folders / sizeof *folders; i++) {
			char name[256];
			snprintf(name, sizeof name, "%s/libcuda.so.1", folders[i]);
			open_library(name);
			if (library) { // the driver looks for its compiler by name, and finds what is loaded
				snprintf(name, sizeof name, "%s/libnvidia-ptxjitcompiler.so.1", folders[i]);
				dlopen(name, RTLD_NOW | RTLD_LOCAL);
			}
		}
	}
	if (!library)
		return;
	CUresult (*init)(unsigned int);
	*(void **)&init = dlsym(library, "cuInit");
	if (init) {
		state.status = init(0);
	} else {
		state.status = CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
		snprintf(detail, sizeof detail, "it has no function cuInit");
	}
}

weft_driver_state weft_driver_open(void) {
	pthread_once(&once, open_driver);
	return state;
}

const char *weft_driver_kernels(void) {
	weft_driver_open();
	return library ? dlsym(library, "weft_kernels") : 0;
}

const char *weft_ptx_compiler_open(const char **why) {
	static char at[512];
	void *compiler = dlopen("libnvidia-ptxjitcompiler.so.1", RTLD_NOW | RTLD_LOCAL);
	struct link_map *found;
	if (!compiler) {
		*why = dlerror();
		return 0;
	}
	if (!dlinfo(compiler, RTLD_DI_LINKMAP, &found))
		snprintf(at, sizeof at, "%s", found->l_name);
	dlclose(compiler);
	return at;
}

// find returns the driver's function, or null and in *error the reason.
static __attribute__((noinline, cold)) void *find(const char *symbol, CUresult *error) {
	*error = weft_driver_open().status;
	if (*error)
		return 0;
	void *f = dlsym(library, symbol);
	if (!f)
		*error = CUDA_ERROR_NOT_SUPPORTED; // an older driver
	return f;
}

// gorgonia.org/cu calls cuInit when the program starts and ends the program if that fails. The real one is called
// by open_driver, so that a program without a driver runs on.
CUresult cuInit(unsigned int flags) {
	(void)flags;
	return CUDA_SUCCESS;
}

// A function remembers the driver's; several threads may look it up at once, with the same result.
#define DEFINE(name, symbol, parameters, arguments) \
	CUresult name parameters { \
		static CUresult(*bound_) parameters; \
		CUresult(*call_) parameters = __atomic_load_n(&bound_, __ATOMIC_RELAXED); \
		if (__builtin_expect(!call_, 0)) { \
			CUresult error_; \
			*(void **)&call_ = find(symbol, &error_); \
			if (!call_) \
				return error_; \
			__atomic_store_n(&bound_, call_, __ATOMIC_RELAXED); \
		} \
		return call_ arguments; \
	}
#define WEFT_CUDA_FUNCTION DEFINE
#include "include/weft_cuda_functions.h"

// With the headers of CUDA 11, gorgonia.org/cu refers to the first versions of three functions.
#define DECLARE(name, symbol, parameters, arguments) CUresult name parameters __asm__(symbol);
#define FIRST_VERSIONS(F) \
	F(graph_add_kernel_node_v1, "cuGraphAddKernelNode", \
		(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, const void *params), \
		(node, graph, after, n, params)) \
	F(stream_wait_value32_v1, "cuStreamWaitValue32", \
		(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags), (stream, addr, value, flags)) \
	F(stream_write_value32_v1, "cuStreamWriteValue32", \
		(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags), (stream, addr, value, flags))
FIRST_VERSIONS(DECLARE)
FIRST_VERSIONS(DEFINE)

#pragma GCC visibility pop
