//go:build cuda && cgo && linux

// The compiler library is looked for at its first use:
//
//   1. $WEFT_NVRTC, if set, and nothing else;
//   2. libnvrtc.so.12, libnvrtc.so.13, as the dynamic loader finds them;
//   3. the same where toolkits are installed.
#define _GNU_SOURCE
#include "nvrtc.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct program *program;

// The functions in use, as NVIDIA documents them. Results are 0 for success.
static struct {
	int (*version)(int *major, int *minor);
	int (*create)(program *, const char *text, const char *name, int headers, const char *const *texts,
		const char *const *names);
	int (*compile)(program, int options, const char *const *option);
	int (*destroy)(program *);
	int (*log_size)(program, size_t *);
	int (*log)(program, char *);
	int (*image_size)(program, size_t *);
	int (*image)(program, char *);
	const char *(*error)(int code);
} nvrtc;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char path[512], detail[512];

static void *try(const char *name) {
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	struct link_map *found;
	if (library)
		snprintf(path, sizeof path, "%s", dlinfo(library, RTLD_DI_LINKMAP, &found) ? name : found->l_name);
	else if (!detail[0])
		snprintf(detail, sizeof detail, "%s", dlerror());
	return library;
}

static void bind(void *library, const char *symbol, void *function) {
	void *f = dlsym(library, symbol);
	if (!f && path[0]) {
		snprintf(detail, sizeof detail, "%s has no function %s", path, symbol);
		path[0] = 0;
	}
	*(void **)function = f;
}

static void open_nvrtc(void) {
	const char *chosen = getenv("WEFT_NVRTC");
	void *library = 0;
	static const char *const folders[] = {"", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/"};
	int given = chosen && *chosen;
	if (given)
		library = try(chosen);
	for (size_t i = 0; !given && !library && i < sizeof folders / sizeof *folders; i++)
		for (int version = 12; !library && version <= 13; version++) {
			char name[128];
			snprintf(name, sizeof name, "%slibnvrtc.so.%d", folders[i], version);
			library = try(name);
		}
	if (!library)
		return;
	bind(library, "nvrtcVersion", &nvrtc.version);
	bind(library, "nvrtcCreateProgram", &nvrtc.create);
	bind(library, "nvrtcCompileProgram", &nvrtc.compile);
	bind(library, "nvrtcDestroyProgram", &nvrtc.destroy);
	bind(library, "nvrtcGetProgramLogSize", &nvrtc.log_size);
	bind(library, "nvrtcGetProgramLog", &nvrtc.log);
	bind(library, "nvrtcGetCUBINSize", &nvrtc.image_size);
	bind(library, "nvrtcGetCUBIN", &nvrtc.image);
	bind(library, "nvrtcGetErrorString", &nvrtc.error);
}

const char *weft_nvrtc_open(int *major, int *minor, const char **why) {
	pthread_once(&once, open_nvrtc);
	*why = detail;
	if (!path[0])
		return 0;
	if (nvrtc.version(major, minor))
		*major = 0;
	return path;
}

// read gets something of a program that has a size; null if that fails.
static char *read(program p, int (*size)(program, size_t *), int (*get)(program, char *), size_t *n) {
	char *s;
	if (size(p, n) || !(s = malloc(*n + 1)))
		return 0;
	if (get(p, s)) {
		free(s);
		return 0;
	}
	s[*n] = 0;
	return s;
}

const char *weft_nvrtc_compile(const char *text, const char *name, int headers, const char *const *texts,
	const char *const *names,
	int options, const char *const *option, char **image, size_t *size, char **log) {
	program p;
	size_t n;
	*image = *log = 0;
	int code = nvrtc.create(&p, text, name, headers, texts, names);
	if (code)
		return nvrtc.error(code);
	code = nvrtc.compile(p, options, option);
	*log = read(p, nvrtc.log_size, nvrtc.log, &n);
	const char *error = code ? nvrtc.error(code) : 0;
	if (!error && !(*image = read(p, nvrtc.image_size, nvrtc.image, size)))
		error = "no code came out";
	nvrtc.destroy(&p);
	return error;
}
