// Fibers: one stack for each thread of a block, and the switch between them.
#include "checker.h"
#include <sys/mman.h>

// emu_switch saves the registers that a call preserves (x86-64 System V), stores the stack pointer in *save
// and goes on where `to` was saved.
extern "C" void emu_switch(void** save, void* to);
asm(R"(
.text
.type emu_switch, @function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size emu_switch, .-emu_switch
)");

namespace emu {

__thread Thread* self;
__thread Block* block;

namespace {

constexpr size_t kStack = 64 << 10;

// The lanes of a warp run the same code in turn. Stacks at the same distance from a multiple of 4096 would
// compete for the same sets of the cache, so each starts a little lower.
constexpr size_t kStagger = 320;

void enter() {
  block->kernel->run(block->parameters);
  finish();
}

}  // namespace

void make_stack(Fiber& fiber) {
  fiber.stack = static_cast<char*>(
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

void prepare(Fiber& fiber) {
  // Six registers, then the address to go to; a function begins with its stack 8 bytes off a multiple of 16.
  void** top = reinterpret_cast<void**>(fiber.stack + kStack - 64 - (fiber.number & 63) * kStagger);
  memset(top, 0, 64);
  top[6] = reinterpret_cast<void*>(&enter);
  fiber.stack_pointer = top;
}

void switch_to(Fiber* to) {
  Fiber* from = block->current;
  void** save = from ? &from->stack_pointer : &block->launcher;
  block->current = to;
  self = to;
  emu_switch(save, to ? to->stack_pointer : block->launcher);
}

}  // namespace emu
