// A driver library for tests, with simulated GPUs. Device memory is host memory; copies and kernel launches are queued
// and run as late as the driver API allows, when something waits for them, so that memory that is freed or reused too
// early is noticed. Calls that no program may make end the process with a message.
//
// The environment variable FAKE_CUDA configures it, at any time: settings "name=value", separated by commas.
//
//   init=CODE        what cuInit returns
//   devices=N        number of GPUs (default 1)
//   capability=NN    compute capability (default 90)
//   apart=1          the GPUs do not reach each other's memory
//   lies=1           copies between GPUs deliver one byte that is wrong, and every call succeeds
//   blocking=1       end the process when a wait spins instead of giving its processor up
//   pcie=1           they reach it over a slow link without atomics
//   driver=NNNNN     version of CUDA that the driver supports, 1000*major + 10*minor (default 13000)
//   memory=BYTES     device memory of each GPU (default 1 GiB)
//   modules=N        how many modules fit on each GPU (default: any number)
//   leaks=1          end the process when a working context is destroyed that still has memory, streams, events or
//                    modules
//   hang=FUNCTION    calls of FUNCTION never return
//   registers=N, local=N  what kernels use, registers and bytes of local memory (default 40 and 0)
//   compiler=NNNN    version of the compiler, 1000*major + 10*minor (default 12040)
//   forget=1         launches of kernels loaded from now on are dropped, so that callers can be timed
//   fail=FUNCTION:N:CODE  the N-th call of FUNCTION (counted from when this setting appeared, from 1) returns CODE
//
// An image is the text "fake" followed by the names of kernels. The kernels:
//
//   add_f32(float *out, const float *a, const float *b, int64 n)
//   report_f32(int32 *out, int32 a, int64 b, float c, double d)  the launch and the arguments
//   fault_f32(...)                                               fails like a kernel that reads a wrong address
//   noop_f32(...)
//
// The library is NVRTC, too: it makes an image of the kernels that the macro POINTWISE would.
#include <cuda.h>

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Noreturn void die(const char *what) {
	fprintf(stderr, "fakecuda: %s\n", what);
	abort();
}

// Settings.

static char counted[1024]; // the setting "fail" that calls are counted for
static struct {
	char function[64];
	int nth, code, calls;
} failure;

// setting copies the value of a setting; 0 if there is none.
static int setting(const char *name, char *value, size_t size) {
	const char *s = getenv("FAKE_CUDA");
	size_t n = strlen(name);
	while (s && *s) {
		if (!strncmp(s, name, n) && s[n] == '=') {
			size_t k = strcspn(s + n + 1, ",");
			snprintf(value, size, "%.*s", (int)k, s + n + 1);
			return 1;
		}
		s += strcspn(s, ",");
		s += *s == ',';
	}
	return 0;
}

static long long number(const char *name, long long otherwise) {
	char v[32];
	return setting(name, v, sizeof v) ? atoll(v) : otherwise;
}

// injected counts a call and returns the code that the settings ask for.
static CUresult injected(const char *function) {
	char v[128] = "";
	if (setting("hang", v, sizeof v) && !strcmp(v, function))
		for (;;)
			pause();
	v[0] = 0;
	setting("fail", v, sizeof v);
	if (strcmp(v, counted)) {
		snprintf(counted, sizeof counted, "%s", v);
		memset(&failure, 0, sizeof failure);
		sscanf(v, "%63[^:]:%d:%d", failure.function, &failure.nth, &failure.code);
	}
	if (!strcmp(failure.function, function) && ++failure.calls == failure.nth)
		return failure.code;
	return CUDA_SUCCESS;
}

// Objects.

enum { MAX_DEVICES = 8, MAX_PARAMS = 8, PARAM_BYTES = 64 };

struct CUctx_st {
	int users;
	unsigned born; // differs from every other context, also from one that was at this address before
	CUresult fault; // sticky
	long long used; // bytes of device memory
	int memories, pinned, streams, events, modules;
	int peers; // a bit set of devices
	unsigned flags;
};

struct CUevent_st {
	CUcontext ctx;
	unsigned flags;
	CUstream stream; // of the last record
	long long recorded, done;
};

// Shared memory that each kernel has, and that a block can have, in bytes.
enum { STATIC_SHARED = 1 << 10, MOST_SHARED = 227 << 10 };

struct CUfunc_st {
	char name[64];
	int shared, forget;
	CUmodule module;
};

struct CUmod_st {
	CUcontext ctx;
	char names[1024];
	struct CUfunc_st functions[64];
	int n;
};

typedef enum { COPY_IN, COPY_OUT, COPY_WITHIN, COPY_PEER, FILL, LAUNCH, RECORD, WAIT, WRITE } kind;

typedef struct {
	int32_t grid[3], block[3], shared;
} config;

typedef struct task {
	struct task *next;
	kind kind;
	char *dst;
	const char *src;
	size_t bytes;
	uint32_t value;
	CUevent event;
	CUstream marked; // stream that a wait is for: the event may have been recorded again on another one
	long long ticket;
	CUfunction function;
	config config;
	char params[PARAM_BYTES];
} task;

struct CUstream_st {
	CUcontext ctx;
	task *first, **last;
	struct CUstream_st *next;
};

// memory is a block of device or pinned memory.
typedef struct memory {
	struct memory *next;
	CUcontext ctx;
	char *at;
	size_t bytes;
	int pinned;
	int mapped; // at reserved addresses
} memory;

static struct CUctx_st contexts[MAX_DEVICES];
static unsigned births;
static CUstream streams;
static memory *memories;
static _Thread_local CUcontext current;
static _Thread_local unsigned current_born;

static memory *holding(const void *p, size_t bytes, int pinned) {
	for (memory *m = memories; m; m = m->next) {
		char *end = m->at + m->bytes;
		if (m->pinned != pinned || (char *)p < m->at)
			continue;
		if ((char *)p + bytes <= end)
			return m;
		if (m->mapped && (char *)p < end) // the rest may be in the mapping behind it
			return holding(end, (char *)p + bytes - end, pinned) ? m : 0;
	}
	return 0;
}

// enter begins a call that needs a context; leave ends it.
static CUresult enter(const char *function) {
	pthread_mutex_lock(&lock);
	CUresult rc = injected(function);
	if (rc == CUDA_SUCCESS && !current)
		rc = CUDA_ERROR_INVALID_CONTEXT;
	if (rc == CUDA_SUCCESS && (!current->users || current->born != current_born))
		rc = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (rc == CUDA_SUCCESS)
		rc = current->fault;
	if (rc != CUDA_SUCCESS)
		pthread_mutex_unlock(&lock);
	return rc;
}

static CUresult leave(CUresult rc) {
	pthread_mutex_unlock(&lock);
	return rc;
}

#define ENTER(function) \
	do { \
		CUresult entered = enter(function); \
		if (entered != CUDA_SUCCESS) \
			return entered; \
	} while (0)

// Kernels.

// signature is the sizes of a kernel's parameters.
static const int *signature(const char *name) {
	static const int add[] = {8, 8, 8, 8, 0}, report[] = {8, 4, 8, 4, 8, 0}, none[] = {0};
	if (!strcmp(name, "add_f32"))
		return add;
	if (!strcmp(name, "report_f32"))
		return report;
	return none;
}

static void run_report(const task *t, char *const *p) {
	struct {
		config config;
		int32_t a;
		int64_t b;
		float c;
		int32_t pad2;
		double d;
	} r = {t->config, *(int32_t *)p[1], *(int64_t *)p[2], *(float *)p[3], 0, *(double *)p[4]};
	memcpy(*(void **)p[0], &r, sizeof r);
}

static CUresult run_kernel(task *t) {
	const char *name = t->function->name;
	char *p[MAX_PARAMS];
	char *at = t->params;
	const int *sizes = signature(name);
	for (int i = 0; sizes[i]; at += (sizes[i] + 7) & ~7, i++)
		p[i] = at;
	if (!strcmp(name, "fault_f32"))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (!strcmp(name, "report_f32"))
		run_report(t, p);
	if (!strcmp(name, "add_f32")) {
		float *out = *(float **)p[0], *a = *(float **)p[1], *b = *(float **)p[2];
		int64_t n = *(int64_t *)p[3];
		if (!holding(out, n * 4, 0) || !holding(a, n * 4, 0) || !holding(b, n * 4, 0))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		for (int64_t i = 0; i < n; i++)
			out[i] = a[i] + b[i];
	}
	return CUDA_SUCCESS;
}

// Queues.

static task *queue(CUstream s, kind k) {
	task *t = calloc(1, sizeof *t);
	t->kind = k;
	*s->last = t;
	s->last = &t->next;
	return t;
}

// run_first runs the first task of a stream, and the tasks of other streams that it waits for.
static void run_first(CUstream s) {
	task *t = s->first;
	CUresult rc = s->ctx->fault;
	if (rc == CUDA_SUCCESS) {
		switch (t->kind) {
		case COPY_IN:
		case COPY_OUT:
			if (!holding(t->kind == COPY_IN ? t->dst : t->src, t->bytes, 0))
				die("a queued copy uses device memory that was freed");
			if (!holding(t->kind == COPY_IN ? t->src : t->dst, t->bytes, 1))
				die("a queued copy uses pinned memory that was freed");
			memcpy(t->dst, t->src, t->bytes);
			break;
		case COPY_WITHIN:
		case COPY_PEER:
			if (!holding(t->dst, t->bytes, 0) || !holding(t->src, t->bytes, 0))
				die("a queued copy within devices, or between them, uses memory that was freed");
			memcpy(t->dst, t->src, t->bytes);
			if (t->kind == COPY_PEER && t->bytes && number("lies", 0))
				t->dst[t->bytes / 2] ^= 1;
			break;
		case FILL:
			if (!holding(t->dst, t->bytes, 0))
				die("a queued fill uses memory that was freed");
			memset(t->dst, (int)t->value, t->bytes);
			break;
		case LAUNCH:
			rc = run_kernel(t);
			break;
		case RECORD:
			break;
		case WAIT:
			while (t->event->done < t->ticket && t->marked->first)
				run_first(t->marked);
			break;
		case WRITE:
			*(uint32_t *)t->dst = t->value;
			break;
		}
	}
	if (t->kind == RECORD && t->event->done < t->ticket)
		t->event->done = t->ticket;
	s->ctx->fault = rc;
	s->first = t->next;
	if (!s->first)
		s->last = &s->first;
	free(t);
}

static void drain(CUstream s) {
	while (s->first)
		run_first(s);
}

// Driver and devices. These need no context.

CUresult cuInit(unsigned int flags) {
	(void)flags;
	return (CUresult)number("init", 0);
}

CUresult cuDriverGetVersion(int *version) {
	*version = (int)number("driver", 13000);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
	*count = (int)number("devices", 1);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
	if (ordinal < 0 || ordinal >= number("devices", 1))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice device) {
	(void)device;
	snprintf(name, len, "Fake GPU");
	return injected("cuDeviceGetName");
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
	(void)device;
	*bytes = number("memory", 1 << 30);
	return injected("cuDeviceTotalMem");
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
	CUresult rc = injected("cuDeviceGetAttribute");
	if (rc != CUDA_SUCCESS)
		return rc;
	int capability = (int)number("capability", 90);
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability / 10; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability % 10; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
	case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1980000; break;
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 3201000; break;
	case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 6144; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = MOST_SHARED; break;
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = 1; break;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = 0xf0 + device; break;
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *value = 2; break;
	default: *value = 0;
	}
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
	(void)device, (void)peer;
	CUresult rc = injected("cuDeviceGetP2PAttribute");
	if (rc != CUDA_SUCCESS)
		return rc;
	int pcie = (int)number("pcie", 0);
	switch (attribute) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = pcie; break;
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: *value = !pcie; break;
	default: *value = 0;
	}
	return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
	*can = device != peer && !number("apart", 0);
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
	switch (error) {
	case CUDA_ERROR_INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
	case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
	case CUDA_ERROR_DEVICE_UNAVAILABLE: *name = "CUDA_ERROR_DEVICE_UNAVAILABLE"; break;
	case CUDA_ERROR_ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
	case CUDA_ERROR_ECC_UNCORRECTABLE: *name = "CUDA_ERROR_ECC_UNCORRECTABLE"; break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
	if (error != CUDA_ERROR_ILLEGAL_ADDRESS)
		return CUDA_ERROR_INVALID_VALUE;
	*text = "an illegal memory access was encountered";
	return CUDA_SUCCESS;
}

// Contexts.

static unsigned context_flags[MAX_DEVICES];

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
	pthread_mutex_lock(&lock);
	CUresult rc = injected("cuDevicePrimaryCtxSetFlags");
	if (rc == CUDA_SUCCESS && contexts[device].users)
		rc = CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	if (rc == CUDA_SUCCESS)
		context_flags[device] = flags;
	return leave(rc);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
	pthread_mutex_lock(&lock);
	CUresult rc = injected("cuDevicePrimaryCtxRetain");
	if (rc != CUDA_SUCCESS)
		return leave(rc);
	CUcontext c = &contexts[device];
	if (!c->users) {
		memset(c, 0, sizeof *c);
		c->born = ++births;
		c->flags = context_flags[device];
	}
	c->users++;
	*ctx = c;
	return leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
	pthread_mutex_lock(&lock);
	CUcontext c = &contexts[device];
	if (!c->users)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	c->users--;
	if (!c->users && number("leaks", 0) && !c->fault &&
		(c->memories || c->pinned || c->streams || c->events || c->modules)) {
		fprintf(stderr, "fakecuda: left behind: %d blocks of device memory, %d of pinned memory, "
			"%d streams, %d events, %d modules\n", c->memories, c->pinned, c->streams, c->events, c->modules);
		abort();
	}
	return leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
	pthread_mutex_lock(&lock);
	if (ctx && !ctx->users)
		return leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
	current = ctx;
	current_born = ctx ? ctx->born : 0;
	return leave(CUDA_SUCCESS);
}

// Memory.

static char *add_memory(size_t bytes, int pinned) {
	memory *m = calloc(1, sizeof *m);
	m->at = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
	m->bytes = bytes;
	m->pinned = pinned;
	m->ctx = current;
	memset(m->at, 0xEE, bytes); // reads of unwritten memory are noticed
	m->next = memories;
	memories = m;
	if (pinned) {
		current->pinned++;
	} else {
		current->memories++;
		current->used += bytes;
	}
	return m->at;
}

static CUresult remove_memory(const void *p, int pinned) {
	for (memory **at = &memories; *at; at = &(*at)->next) {
		memory *m = *at;
		if (m->at != p || m->pinned != pinned || m->mapped)
			continue;
		for (CUstream s = streams; s; s = s->next)
			for (task *t = s->ctx->fault ? 0 : s->first; t; t = t->next) // a context with a fault does no more work
				if ((t->dst >= m->at && t->dst < m->at + m->bytes) || (t->src >= m->at && t->src < m->at + m->bytes))
					die("memory is freed while a copy that uses it is queued");
		if (pinned) {
			m->ctx->pinned--;
		} else {
			m->ctx->memories--;
			m->ctx->used -= m->bytes;
		}
		*at = m->next;
		free(m->at);
		free(m);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAlloc(CUdeviceptr *addr, size_t bytes) {
	ENTER("cuMemAlloc");
	if (bytes == 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (current->used + (long long)bytes > number("memory", 1 << 30))
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	*addr = (CUdeviceptr)add_memory(bytes, 0);
	return leave(CUDA_SUCCESS);
}

CUresult cuMemFree(CUdeviceptr addr) {
	ENTER("cuMemFree");
	return leave(remove_memory((void *)addr, 0));
}

CUresult cuMemGetInfo(size_t *free, size_t *total) {
	ENTER("cuMemGetInfo");
	*total = number("memory", 1 << 30);
	*free = *total - current->used;
	return leave(CUDA_SUCCESS);
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags) {
	(void)flags;
	ENTER("cuMemHostAlloc");
	*p = add_memory(bytes, 1);
	return leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *addr, void *p, unsigned int flags) {
	(void)flags;
	ENTER("cuMemHostGetDevicePointer");
	*addr = (CUdeviceptr)p;
	return leave(CUDA_SUCCESS);
}

CUresult cuMemFreeHost(void *p) {
	ENTER("cuMemFreeHost");
	return leave(remove_memory(p, 1));
}

// Virtual memory. A range is one block of host memory, and can be used where a handle is mapped.

enum { GRANULARITY = 2 << 20 };

static size_t created[64]; // sizes of memory without addresses; a handle is an index here, plus 1

CUresult cuMemGetAllocationGranularity(size_t *n, const CUmemAllocationProp *prop,
	CUmemAllocationGranularity_flags option) {
	(void)option;
	ENTER("cuMemGetAllocationGranularity");
	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*n = GRANULARITY;
	return leave(CUDA_SUCCESS);
}

CUresult cuMemAddressReserve(CUdeviceptr *addr, size_t size, size_t alignment, CUdeviceptr wanted,
	unsigned long long flags) {
	ENTER("cuMemAddressReserve");
	if (!size || size % GRANULARITY || alignment || wanted || flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*addr = (CUdeviceptr)aligned_alloc(GRANULARITY, size);
	current->memories++;
	return leave(CUDA_SUCCESS);
}

CUresult cuMemAddressFree(CUdeviceptr addr, size_t size) {
	ENTER("cuMemAddressFree");
	for (memory *m = memories; m; m = m->next)
		if (m->mapped && m->at >= (char *)addr && m->at < (char *)addr + size)
			die("addresses are freed with memory behind them");
	free((void *)addr);
	current->memories--;
	return leave(CUDA_SUCCESS);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
	unsigned long long flags) {
	ENTER("cuMemCreate");
	if (!size || size % GRANULARITY || flags || contexts + prop->location.id != current)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (current->used + (long long)size > number("memory", 1 << 30))
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < 64; i++)
		if (!created[i]) {
			created[i] = size;
			*handle = i + 1;
			current->memories++;
			return leave(CUDA_SUCCESS);
		}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
	ENTER("cuMemRelease");
	created[handle - 1] = 0;
	current->memories--;
	return leave(CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr addr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	unsigned long long flags) {
	ENTER("cuMemMap");
	if (size != created[handle - 1] || offset || flags || addr % GRANULARITY || holding((void *)addr, 1, 0))
		return leave(CUDA_ERROR_INVALID_VALUE);
	memory *m = calloc(1, sizeof *m);
	*m = (memory){memories, current, (char *)addr, 0, 0, 1}; // of size 0 until it has access
	memories = m;
	current->memories++;
	current->used += size;
	return leave(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr addr, size_t size, const CUmemAccessDesc *desc, size_t count) {
	ENTER("cuMemSetAccess");
	memory *m = memories; // what was mapped last
	if (!m || !m->mapped || m->at != (char *)addr || !count || contexts + desc->location.id != current ||
		desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return leave(CUDA_ERROR_INVALID_VALUE);
	memset(m->at, 0xEE, size);
	m->bytes = size;
	return leave(CUDA_SUCCESS);
}

// One call may end several contiguous mappings.
CUresult cuMemUnmap(CUdeviceptr addr, size_t size) {
	ENTER("cuMemUnmap");
	for (memory **at = &memories; *at;) {
		memory *m = *at;
		if (!m->mapped || m->at + m->bytes <= (char *)addr || m->at >= (char *)addr + size) {
			at = &m->next;
			continue;
		}
		if (m->at < (char *)addr || m->at + m->bytes > (char *)addr + size)
			die("a part of a mapping is unmapped");
		current->memories--;
		current->used -= m->bytes;
		*at = m->next;
		free(m);
	}
	return leave(CUDA_SUCCESS);
}

static CUresult queue_copy(CUstream s, kind k, void *dst, const void *src, size_t bytes) {
	const void *device = k == COPY_IN ? dst : src, *host = k == COPY_IN ? src : dst;
	if (!holding(host, bytes, 1))
		die("an asynchronous copy uses memory that is not pinned");
	if (!holding(device, bytes, 0))
		return CUDA_ERROR_INVALID_VALUE;
	task *t = queue(s, k);
	t->dst = dst;
	t->src = src;
	t->bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream s) {
	ENTER("cuMemcpyHtoDAsync");
	return leave(queue_copy(s, COPY_IN, (void *)dst, src, bytes));
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream s) {
	ENTER("cuMemcpyDtoHAsync");
	return leave(queue_copy(s, COPY_OUT, dst, (void *)src, bytes));
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s) {
	ENTER("cuMemcpyDtoDAsync");
	if (!holding((void *)dst, bytes, 0) || !holding((void *)src, bytes, 0))
		return leave(CUDA_ERROR_INVALID_VALUE);
	task *t = queue(s, COPY_WITHIN);
	t->dst = (char *)dst;
	t->src = (const char *)src;
	t->bytes = bytes;
	return leave(CUDA_SUCCESS);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
	(void)flags;
	ENTER("cuCtxEnablePeerAccess");
	int other = (int)(peer - contexts);
	if (number("apart", 0))
		return leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	if (current->peers >> other & 1)
		return leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	current->peers |= 1 << other;
	return leave(CUDA_SUCCESS);
}

// A real driver copies between devices that do not reach each other through the host; here that is an error.
CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream s) {
	ENTER("cuMemcpyPeerAsync");
	memory *d = holding((void *)dst, bytes, 0), *m = holding((void *)src, bytes, 0);
	if (!d || !m || d->ctx != to || m->ctx != from)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!(s->ctx->peers >> (from - contexts) & 1))
		die("a copy between devices that were not connected");
	task *t = queue(s, COPY_PEER);
	t->dst = (char *)dst;
	t->src = (char *)src;
	t->bytes = bytes;
	return leave(CUDA_SUCCESS);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream s) {
	ENTER("cuMemsetD8Async");
	if (!holding((void *)dst, n, 0))
		return leave(CUDA_ERROR_INVALID_VALUE);
	task *t = queue(s, FILL);
	t->dst = (char *)dst;
	t->value = value;
	t->bytes = n;
	return leave(CUDA_SUCCESS);
}

// Streams and events.

CUresult cuStreamCreate(CUstream *s, unsigned int flags) {
	(void)flags;
	ENTER("cuStreamCreate");
	*s = calloc(1, sizeof **s);
	(*s)->ctx = current;
	(*s)->last = &(*s)->first;
	(*s)->next = streams;
	streams = *s;
	current->streams++;
	return leave(CUDA_SUCCESS);
}

CUresult cuStreamDestroy(CUstream s) {
	ENTER("cuStreamDestroy");
	drain(s);
	for (CUstream *at = &streams; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			break;
		}
	s->ctx->streams--;
	return leave(CUDA_SUCCESS); // s itself is kept: events remember it
}

CUresult cuStreamSynchronize(CUstream s) {
	ENTER("cuStreamSynchronize");
	if (number("blocking", 0) && !(s->ctx->flags & CU_CTX_SCHED_BLOCKING_SYNC))
		die("a wait for a stream spins");
	drain(s);
	return leave(s->ctx->fault);
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags) {
	(void)flags;
	ENTER("cuStreamWaitEvent");
	if (e->stream) {
		task *t = queue(s, WAIT);
		t->event = e;
		t->marked = e->stream;
		t->ticket = e->recorded;
	}
	return leave(CUDA_SUCCESS);
}

CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
	(void)flags;
	ENTER("cuStreamWriteValue32");
	task *t = queue(s, WRITE);
	t->dst = (char *)addr;
	t->value = value;
	return leave(CUDA_SUCCESS);
}

CUresult cuEventCreate(CUevent *e, unsigned int flags) {
	ENTER("cuEventCreate");
	*e = calloc(1, sizeof **e);
	(*e)->flags = flags;
	(*e)->ctx = current;
	current->events++;
	return leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy(CUevent e) {
	ENTER("cuEventDestroy");
	e->ctx->events--;
	return leave(CUDA_SUCCESS); // e itself is kept: tasks may refer to it
}

CUresult cuEventRecord(CUevent e, CUstream s) {
	ENTER("cuEventRecord");
	task *t = queue(s, RECORD);
	e->stream = s;
	t->event = e;
	t->ticket = ++e->recorded;
	return leave(CUDA_SUCCESS);
}

// A query makes progress: it runs one task.
CUresult cuEventQuery(CUevent e) {
	ENTER("cuEventQuery");
	if (e->done == e->recorded)
		return leave(CUDA_SUCCESS);
	run_first(e->stream);
	return leave(e->ctx->fault ? e->ctx->fault : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent e) {
	ENTER("cuEventSynchronize");
	if (number("blocking", 0) && !(e->flags & CU_EVENT_BLOCKING_SYNC))
		die("a wait for an event spins");
	while (e->done < e->recorded)
		run_first(e->stream);
	return leave(e->ctx->fault);
}

// Modules and launches.

static CUresult load(CUmodule *module, const char *image) {
	if (strncmp(image, "fake ", 5))
		return CUDA_ERROR_INVALID_IMAGE;
	if (current->modules == number("modules", INT_MAX))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*module = calloc(1, sizeof **module);
	(*module)->ctx = current;
	current->modules++;
	snprintf((*module)->names, sizeof (*module)->names, "%s ", image + 5);
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n, CUjit_option *options, void **values) {
	ENTER("cuModuleLoadDataEx");
	CUresult rc = load(module, image);
	for (unsigned int i = 0; i < n && rc != CUDA_SUCCESS; i++)
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			strcpy(values[i], "fake ptxas: not an image\n");
	return leave(rc);
}

CUresult cuModuleUnload(CUmodule module) {
	ENTER("cuModuleUnload");
	if (module->ctx != current)
		die("a module of another context is unloaded");
	for (CUstream s = streams; s; s = s->next)
		for (task *t = s->ctx->fault ? 0 : s->first; t; t = t->next)
			if (t->function >= module->functions && t->function < module->functions + module->n)
				die("a module is unloaded while a launch of a kernel of it is queued");
	module->ctx->modules--;
	module->ctx = 0; // the module is kept: its kernels must not be launched
	return leave(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule m, const char *name) {
	ENTER("cuModuleGetFunction");
	char word[80];
	snprintf(word, sizeof word, "%s ", name);
	if (!strstr(m->names, word))
		return leave(CUDA_ERROR_NOT_FOUND);
	CUfunction f = &m->functions[m->n++];
	snprintf(f->name, sizeof f->name, "%s", name);
	f->shared = (48 << 10) - STATIC_SHARED;
	f->forget = (int)number("forget", 0);
	f->module = m;
	*function = f;
	return leave(CUDA_SUCCESS);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
	(void)f;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = number("registers", 40); break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = number("local", 0); break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = STATIC_SHARED; break;
	default: *value = 0;
	}
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
	ENTER("cuFuncSetAttribute");
	if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value + STATIC_SHARED > MOST_SHARED)
		return leave(CUDA_ERROR_INVALID_VALUE);
	f->shared = value;
	return leave(CUDA_SUCCESS);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	unsigned int by, unsigned int bz, unsigned int shared, CUstream s, void **params, void **extra) {
	(void)extra;
	if (f->forget)
		return CUDA_SUCCESS;
	ENTER("cuLaunchKernel");
	if (f->module->ctx != current)
		die("a kernel of an unloaded module, or of one of another context, is launched");
	if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || (int)shared > f->shared)
		return leave(CUDA_ERROR_INVALID_VALUE);
	task *t = queue(s, LAUNCH);
	t->function = f;
	t->config = (config){{gx, gy, gz}, {bx, by, bz}, shared};
	char *at = t->params; // the arguments belong to the caller
	const int *sizes = signature(f->name);
	for (int i = 0; sizes[i]; at += (sizes[i] + 7) & ~7, i++)
		memcpy(at, params[i], sizes[i]);
	return leave(CUDA_SUCCESS);
}

// The compiler.

typedef struct {
	char image[256];
} program;

int nvrtcVersion(int *major, int *minor) {
	*major = number("compiler", 12040) / 1000;
	*minor = number("compiler", 12040) % 1000 / 10;
	return 0;
}

int nvrtcCreateProgram(program **p, const char *text, const char *name, int headers, const char *const *texts,
	const char *const *names) {
	(void)name, (void)headers, (void)texts, (void)names;
	*p = calloc(1, sizeof **p);
	char op[64] = "";
	const char *at = strstr(text, "POINTWISE(");
	if (at)
		sscanf(at, "POINTWISE(%63[^,]", op);
	snprintf((*p)->image, sizeof (*p)->image, "fake %s_vector %s_strided %s_strided64", op, op, op);
	return 0;
}

int nvrtcCompileProgram(program *p, int n, const char *const *options) {
	(void)p, (void)n, (void)options;
	pthread_mutex_lock(&lock);
	int code = injected("nvrtcCompileProgram");
	pthread_mutex_unlock(&lock);
	return code;
}

int nvrtcDestroyProgram(program **p) {
	free(*p);
	return 0;
}

int nvrtcGetProgramLogSize(program *p, size_t *n) {
	(void)p;
	*n = 1;
	return 0;
}

int nvrtcGetProgramLog(program *p, char *to) {
	(void)p;
	*to = 0;
	return 0;
}

int nvrtcGetCUBINSize(program *p, size_t *n) {
	*n = strlen(p->image) + 1;
	return 0;
}

int nvrtcGetCUBIN(program *p, char *to) {
	strcpy(to, p->image);
	return 0;
}

const char *nvrtcGetErrorString(int code) { return code ? "NVRTC_ERROR_FAKE" : "NVRTC_SUCCESS"; }
