// call FOLDER [OPTION...] <program >image: compile CUDA C by the NVRTC in a folder.
//
// The result is PTX for --gpu-architecture=compute_XY and a cubin for sm_XY; remarks go to standard error. NVRTC
// is opened here, in a process of its own, so that programs are compiled in parallel and a crash takes one along.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// NVRTC writes a hash of the folder, the time and the number of its process into some names, so that the same source
// would give another image each time. These stand in for the functions of the C library.
pid_t getpid(void) { return 1; }

time_t time(time_t *to) {
  if (to) *to = 0;
  return 0;
}

char *getcwd(char *to, size_t size) {
  if (!to) return strdup("/");
  return size > 1 ? strcpy(to, "/") : NULL;
}

// The functions of NVRTC that are called, as its documentation gives them; the result 0 is success.
typedef struct Program *Program;
static int (*create)(Program *, const char *source, const char *name, int headers, const char *const *,
                     const char *const *);
static int (*compile)(Program, int options, const char *const *);
static int (*log_size)(Program, size_t *);
static int (*get_log)(Program, char *);
static int (*ptx_size)(Program, size_t *);
static int (*get_ptx)(Program, char *);
static int (*cubin_size)(Program, size_t *);
static int (*get_cubin)(Program, char *);

static void fail(const char *what, const char *why) {
  fprintf(stderr, "nvrtc: %s: %s\n", what, why);
  exit(2);
}

static void *open_library(const char *folder, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!library) fail("open", dlerror());
  return library;
}

// open_nvrtc opens the built-in headers first: NVRTC asks for them by name alone, and then gets the open ones.
static void open_nvrtc(const char *folder) {
  open_library(folder, "libnvrtc-builtins.so.12.4");
  void *nvrtc = open_library(folder, "libnvrtc.so.12");
  struct { const char *name; void *function; } table[] = {
      {"nvrtcCreateProgram", &create},        {"nvrtcCompileProgram", &compile}, {"nvrtcGetProgramLogSize", &log_size},
      {"nvrtcGetProgramLog", &get_log},       {"nvrtcGetPTXSize", &ptx_size},    {"nvrtcGetPTX", &get_ptx},
      {"nvrtcGetCUBINSize", &cubin_size},     {"nvrtcGetCUBIN", &get_cubin},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    void *symbol = dlsym(nvrtc, table[i].name);
    if (!symbol) fail("open", dlerror());
    memcpy(table[i].function, &symbol, sizeof symbol);
  }
}

static char *read_all(FILE *file) {
  size_t size = 0, room = 1 << 16;
  char *text = malloc(room);
  for (size_t n; text && (n = fread(text + size, 1, room - size - 1, file)) > 0;) {
    size += n;
    if (size + 1 == room) text = realloc(text, room *= 2);
  }
  if (!text) fail("read", "out of memory");
  text[size] = 0;
  return text;
}

// get reads a result of NVRTC, whose size one function tells and whose bytes another.
static char *get(Program p, int (*size)(Program, size_t *), int (*bytes)(Program, char *), size_t *n) {
  *n = 0;
  if (size(p, n)) fail("result", "there is none");
  char *to = calloc(1, *n + 1);
  if (!to || bytes(p, to)) fail("result", "it cannot be read");
  return to;
}

int main(int argc, char **argv) {
  if (argc < 2) fail("usage", "call FOLDER [OPTION...] <program >image");
  open_nvrtc(argv[1]);
  Program p;
  if (create(&p, read_all(stdin), "program.cu", 0, NULL, NULL)) fail("create", "NVRTC refuses the program");
  int status = compile(p, argc - 2, (const char *const *)(argv + 2));
  size_t n;
  fputs(get(p, log_size, get_log, &n), stderr);
  if (status) return 1;
  int cubin = 0;
  for (int i = 2; i < argc; i++) cubin |= !strncmp(argv[i], "--gpu-architecture=sm_", 22);
  char *image = cubin ? get(p, cubin_size, get_cubin, &n) : get(p, ptx_size, get_ptx, &n);
  if (!cubin && n) n--;  // the zero that ends the text
  return fwrite(image, 1, n, stdout) == n && !fflush(stdout) ? 0 : 2;
}
