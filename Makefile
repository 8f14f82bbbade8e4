# Makefile - builds, tests and installs tlua. `make help` lists the targets.

# ---- settings, which are given on the command line or in the environment ---------

# The folder in which `make install` installs.
PREFIX ?= /usr/local
DESTDIR ?=
# STATIC=1 also installs the static library libtlua.a. By default only the shared library is
# installed.
STATIC ?= 0
# PROFILE=infer builds a small static library that only runs trained models. OPS lists its operators
# (src/profiles/infer.mk), and ISA names its instruction set, as in ISA=v4.
PROFILE ?=
ISA ?=
ifneq ($(PROFILE),)
include src/profiles/$(PROFILE).mk
BUILD ?= build/$(PROFILE)
CFLAGS ?= -Os -g
KERNEL_CFLAGS ?= -O2 $(ALL_VECTORS) -fno-math-errno -fno-trapping-math
endif
# The folder of everything that is built. Builds with different settings need different folders.
BUILD ?= build
# Options for optimisation and debug information. Options that the sources need are added below.
CFLAGS ?= -O2 -g
# Options for compiling kernels; they come after CFLAGS.
KERNEL_CFLAGS ?= -O3 -fno-math-errno -fno-trapping-math
# Options for compiling the GPU's kernels. A build that is only compiled and never runs on a GPU
# takes a sixth of the time with NVCC_OPT='-Xcicc -O0 -Xptxas -O0' PTX_ONLY=1. The plugin then
# contains only PTX, which the GPU's driver would compile.
NVCC_OPT ?= -O3
PTX_ONLY ?= 0
# The sanitizers to build with, as in SANITIZE=address,undefined.
SANITIZE ?=
# With WERROR=0, warnings do not stop the build. V=1 prints whole commands.
WERROR ?= 1
V ?= 0
# A program that runs the compilers, as in CCACHE=ccache.
CCACHE ?=
# The specs to run, and a pattern for names of tests:
# make test SPEC=spec/ops/reduction_spec.lua FILTER=sums
SPEC ?=
FILTER ?=
# CUDA is the folder of CUDA 12 or later, or 0. The GPU's plugin is built if CUDA is found; CUDA=0
# leaves it out. CUDA_ARCH lists the compute capabilities to compile for. The default is A100, H100,
# B200 and GeForce 50, as far as nvcc knows them. All other GPUs that are newer than the lowest of
# these compile the plugin's PTX when they first run it. CUDA_ARCH=90 builds in little more than
# half of the time. `make install` and `make deb` leave the plugin out if the last `make CUDA=0`
# did.
ifneq ($(filter install install-debug deb,$(MAKECMDGOALS)),)
CUDA ?= $(if $(wildcard $(BUILD)/without_cuda),0,$(FOUND_CUDA))
endif
FOUND_CUDA = $(patsubst %/bin/nvcc,%,$(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc)))
CUDA ?= $(FOUND_CUDA)
CUDA_ARCH ?= $(filter $(shell $(CUDA)/bin/nvcc --list-gpu-code 2>/dev/null | sed -n 's/^sm_//p'),80 90 100 120)
# These settings are found automatically if they are not given: LUA, an interpreter of version 5.4
# or 5.5 for the generators (if it is empty, a small one is built first), LUA_INCDIR or LUA_CFLAGS,
# and LUA_LIBS. LUA_SOURCES is a folder with the C files of Lua, which are then compiled for this
# build. BLAS and line editing are searched for at run time; `tlua doctor` shows which ones are
# found.

# ---- users need not change anything below this line -----------------------------

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
comma := ,

# Runs as many jobs as there are cores, unless the user sets another number.
JOBS := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS)
endif

# ---- the machine to build for ----------------------------------------------------

# The compiler's predefined macros name the processor and, if it is one of these three, the
# platform: Windows, Emscripten or Apple.
machine := $(shell echo | $(CC) -dM -E -x c - 2>/dev/null | sed -n \
  -e 's/^.define __\(x86_64\|i386\|aarch64\|arm\|s390x\|powerpc64\|wasm\)__ 1$$/\1/p' \
  -e 's/^.define _\(WIN32\) 1$$/\1/p' -e 's/^.define __\(EMSCRIPTEN\|APPLE\)__ 1$$/\1/p')
WINDOWS := $(filter WIN32,$(machine))
WASM := $(filter EMSCRIPTEN,$(machine))
APPLE := $(filter APPLE,$(machine))
# CROSS is set if the compiler does not compile for this machine. Then libraries that are installed
# for this machine are of no use.
here := $(shell uname -m | sed -e 's/^i.86$$/i386/' -e 's/^arm64$$/aarch64/' -e 's/^arm[v0-9].*/arm/' -e 's/^ppc64/powerpc64/')
CROSS := $(if $(machine),$(if $(filter $(here),$(machine)),,yes)$(if \
  $(WINDOWS),$(if $(filter Windows_NT,$(OS)),,yes)))
multiarch := $(if $(CROSS),$(if $(WASM),,$(shell $(CC) -print-multiarch 2>/dev/null)))
ifdef CROSS
PKG_CONFIG ?= PKG_CONFIG_LIBDIR=/usr/lib/$(or $(multiarch),none)/pkgconfig pkg-config
AR := $(if $(WASM),emar,$(shell $(CC) -print-prog-name=ar 2>/dev/null))
STRIP ?= $(shell $(CC) -print-prog-name=strip 2>/dev/null)
OBJCOPY ?= $(shell $(CC) -print-prog-name=objcopy 2>/dev/null)
endif
PKG_CONFIG ?= pkg-config
STRIP ?= strip
OBJCOPY ?= objcopy

# ---- the software on this machine ------------------------------------------------

ifeq ($(origin LUA),undefined)
LUA := $(shell for lua in lua5.4 lua54 lua5.5 lua55 lua; do \
  $$lua -e 'assert(_VERSION == "Lua 5.4" or _VERSION == "Lua 5.5")' 2>/dev/null && command -v $$lua && break; done)
endif

LUA_SOURCES ?=
ifneq ($(LUA_SOURCES),)
LUA_INCDIR := $(LUA_SOURCES)
LUA_LIBS := $(BUILD)/liblua.a
endif
# pkg-config knows Lua by different names on different systems. Without pkg-config, the usual
# folders are searched.
LUA_PC := $(shell for pc in lua5.4 lua-5.4 lua54 lua5.5 lua-5.5 lua55 lua; do \
  $(PKG_CONFIG) --exists "$$pc >= 5.4 $$pc < 5.6" 2>/dev/null && echo $$pc && break; done)
ifdef LUA_INCDIR
LUA_CFLAGS ?= -I$(LUA_INCDIR)
endif
ifeq ($(origin LUA_CFLAGS),undefined)
LUA_CFLAGS := $(strip $(if $(LUA_PC),$(shell $(PKG_CONFIG) --cflags $(LUA_PC)),\
  $(patsubst %/lua.h,-I%,$(firstword $(shell grep -lsE 'LUA_VERSION_NUM.*504|LUA_VERSION_MINOR_N.*5' \
  $(if $(CROSS),,$(foreach d,/usr/include /usr/local/include,$d/lua5.4/lua.h $d/lua54/lua.h $d/lua5.5/lua.h $d/lua55/lua.h $d/lua.h)) \
  /dev/null)))))
endif
# Links the static library of Lua if there is one, since calls into Lua are then faster. All of its
# objects are linked, so that C modules find every function of Lua in the program.
whole = -Wl,--whole-archive $(1) -Wl,--no-whole-archive
ifdef APPLE
whole = -Wl,-force_load,$(1)
endif
ifneq ($(origin LUA_LIBS),undefined)
ifeq ($(words $(LUA_LIBS))$(filter-out %.dll.a,$(filter %.a,$(LUA_LIBS))),1$(LUA_LIBS))
override LUA_LIBS := $(call whole,$(LUA_LIBS))
endif
else
lua_lib := $(firstword $(filter -l%,$(if $(LUA_PC),$(shell $(PKG_CONFIG) --libs $(LUA_PC)))) -llua5.4)
lua_archive := $(realpath $(filter /%,$(shell $(CC) -print-file-name=$(lua_lib:-l%=lib%.a) 2>/dev/null)))
LUA_LIBS := $(if $(lua_archive),$(call whole,$(lua_archive)),$(if $(CROSS)$(LUA_PC),$(if \
  $(LUA_PC),$(lua_lib)),$(lua_lib)))
endif

accepts = $(shell echo | $(CC) $(1) -x c -E - >/dev/null 2>&1 && echo $(1))
# Tests an option by compiling with -Werror, since clang's preprocessor accepts unknown options, and
# its compiler only warns of them.
compiles = $(shell echo | $(CC) -Werror $(1) -x c -c -o /dev/null - >/dev/null 2>&1 && echo $(1))

# Files in folders named isa are compiled once for each of these instruction sets. ISAS=native
# compiles them once, for the processor of this machine, and ISAS=base for the oldest processor that
# the compiler supports. The loops of PORTABLE_ISAS give the same bits on all machines, because they
# do not use fused multiply-add. If even the oldest processors of a machine have fused multiply-add,
# the instruction set `portable` is compiled in addition.
ifneq ($(filter x86_64,$(machine)),)
ISAS := $(if $(call accepts,-march=x86-64-v4),v2 v3 v4)
PORTABLE_ISAS := v2 base
else ifneq ($(filter i386,$(machine))$(WASM),)
PORTABLE_ISAS := base
else
ISAS := portable base
PORTABLE_ISAS := portable
endif
ISAS := $(or $(ISAS),base)
UNFUSED := -ffp-contract=off
# The best of these instruction sets that this machine's processor has.
native_macros = $(shell echo | $(CC) -march=native -dM -E -x c - 2>/dev/null)
HERE_ISA = $(or $(filter $(if $(filter __AVX512VL__,$(native_macros)),v4,$(if \
  $(filter __AVX2__,$(native_macros)),v3,v2)),$(ISAS)),$(ISAS))
ISA_FLAGS_native := -march=native
ISA_FLAGS_v2 := -march=x86-64-v2
ISA_FLAGS_v3 := -march=x86-64-v3
ISA_FLAGS_v4 := -march=x86-64-v4
# The matrix products of the portable instruction set are also compiled for wider vectors, with the
# same bits.
UNFUSED_ISAS = $(if $(filter v2,$(ISAS)),$(addsuffix u,$(filter v3 v4,$(ISAS))))
ISA_FLAGS_v3u = $(ISA_FLAGS_v3) $(UNFUSED)
ISA_FLAGS_v4u = $(ISA_FLAGS_v4) $(UNFUSED)
# gcc stores vectors of 32 and 64 bytes on the stack with aligned instructions, but Windows aligns
# the stack only to 16 bytes.
ifdef WINDOWS
unaligned := $(call accepts,-Wa$(comma)-muse-unaligned-vector-move)
ISAS := $(if $(unaligned),$(ISAS),$(firstword $(ISAS)))
ISA_FLAGS_v3 += $(unaligned)
ISA_FLAGS_v4 += $(unaligned)
endif

# A profile has only one instruction set. On x86-64 it is v3, with vectors of 32 bytes, which
# processors of the last ten years have.
ifneq ($(PROFILE),)
ALL_VECTORS := $(call compiles,-fvect-cost-model=dynamic)
override ISAS := $(or $(ISA),$(filter v3 base,$(ISAS)),$(firstword $(ISAS)))
endif

# ---- flags -----------------------------------------------------------------------

# -Wconversion includes changes of sign in clang, but not in gcc, so these warnings are turned off.
# The signedness of an enum depends on the compiler.
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wmissing-prototypes -Wstrict-prototypes -Wvla \
  $(if $(filter-out 0,$(WERROR)),-Werror) \
  $(if $(WINDOWS),-Wno-float-conversion) # isnan and its like, as MinGW has them
# -fvisibility=hidden: only functions that tlua.h marks with TL_API are exported. -fexceptions: if a
# host's Lua is built as C++, its errors unwind the stack frames of the library. -fno-math-errno on
# Windows: MinGW's function sqrt rounds twice, while the processor's instruction, which the compiler
# may use with this option, rounds once.
TL_CFLAGS := -std=gnu11 $(if $(WINDOWS),-fno-math-errno) $(if $(WINDOWS)$(WASM),,-fPIC -pthread) -fvisibility=hidden $(WARNINGS) \
  $(if $(filter i386,$(machine)),-msse2 -mfpmath=sse -Wno-psabi) \
  $(if $(filter x86_64 i386,$(if $(filter -march=% -mfma,$(CFLAGS)),,$(machine))),,$(UNFUSED)) $(if $(WASM),-msimd128,-fexceptions) $(CFLAGS) \
  $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)
# TLI_DEBUG turns assertions on, and turns the reuse of freed memory blocks off.
TL_CPPFLAGS := -Isrc -I. -I$(BUILD)/gen $(LUA_CFLAGS) $(if $(SANITIZE),-DTLI_DEBUG) \
  $(if $(WINDOWS),-D__USE_MINGW_ANSI_STDIO=1) $(if $(filter i386 arm,$(machine)),-D_FILE_OFFSET_BITS=64) $(CPPFLAGS)
ifneq ($(PROFILE),)
TL_CFLAGS += -ffunction-sections -fdata-sections
TL_CPPFLAGS += -DTLI_INFER $(if $(filter runtime,$(PROFILE)),-DTLI_RUNTIME $(if $(filter train,$(MODE)),-DTLI_TRAIN))
# With noseparate-code, code and constants share pages, which makes the file up to three pages
# smaller.
override LDFLAGS += -Wl,--gc-sections -Wl,-z,noseparate-code
endif
TL_LDFLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(if $(WINDOWS)$(WASM),,-pthread) $(LDFLAGS)
TL_LIBS := $(if $(WINDOWS)$(WASM),,-ldl -lpthread) -lm $(LDLIBS)
# With these options, node runs the command with this machine's files and environment. Undefined
# symbols are allowed because Emscripten has no pthread_kill, which is called only if a signal
# arrives in another thread.
NODE_FLAGS := $(if $(WASM),-O1 -sALLOW_MEMORY_GROWTH=1 -sTOTAL_STACK=1MB -sERROR_ON_UNDEFINED_SYMBOLS=0 -sNODERAWFS=1 -sEXIT_RUNTIME=1 -sENVIRONMENT=node \
  --pre-js spec/support/node_env.js)
# nodelete: when a Lua state is closed, Lua unloads C modules, but the library's threads keep
# running.
SHARED_FLAGS := -shared $(if $(WINDOWS),,-Wl,-soname,libtlua.so.0 -Wl,-z,nodelete)
# -E exports Lua's functions from the program, so that C modules find them.
PROGRAM_FLAGS := $(if $(WINDOWS)$(WASM),,-Wl,-E)
# The tables of functions need 22,000 relocations. They take half a megabyte, or a few kilobytes if
# the linker and the C library (glibc from 2.36 on) support packed relocations. Some loaders, such
# as musl's before 1.2.4, ignore packed relocations, so a test program that contains a relocated
# pointer is run.
PACKED := $(if $(CROSS)$(WINDOWS)$(WASM)$(APPLE),,$(shell exec 2>/dev/null; probe=$$(mktemp) && \
  echo 'static int zero; int *volatile place = &zero; int main(void) { return *place; }' | \
  $(CC) -x c -o $$probe -Wl,--fatal-warnings -Wl,-z,pack-relative-relocs - && $$probe && \
  echo -Wl,-z,pack-relative-relocs; rm -f "$$probe"))
SHARED_FLAGS += $(PACKED) $(if $(WINDOWS)$(WASM)$(APPLE),,-Wl,--version-script=src/tlua.map)
PROGRAM_FLAGS += $(PACKED)
ifdef APPLE
SHARED_FLAGS := -dynamiclib -undefined dynamic_lookup
PROGRAM_FLAGS := -Wl,-export_dynamic
endif
# Errors of Lua unwind only the binding. The engine and the kernels return errors, so they need no
# unwind tables; debuggers use the debug information instead. (On Windows, a jump out of a signal
# handler needs the tables.)
NO_UNWINDING := $(if $(WINDOWS)$(WASM)$(SANITIZE),,-fno-exceptions -fno-asynchronous-unwind-tables -fno-unwind-tables)
# Without this option, gcc turns a row's sixteen accumulators into scalars before it vectorises.
# Integer code becomes 5 times as large and up to 8 times as slow.
FEWER_UNROLLED := $(call compiles,--param max-completely-peel-times=4)
COMPILE = $(CC) $(TL_CPPFLAGS) $(TL_CFLAGS) -MMD -MP

# ---- files -----------------------------------------------------------------------
# New sources and specs are found by their folders, so they need no change here.

OBJ := $(BUILD)/obj
GEN := $(BUILD)/gen

# src/ops and kernels/cpu have a folder for each family of operators, with equal names. In
# kernels/cpu, loops that depend on the instruction set are in folders named isa. Files whose names
# end with _posix or _windows are compiled only for these systems.
of_other := $(if $(WINDOWS),%_posix.c,%_windows.c)
LIB_SRC := $(filter-out $(of_other) src/dist/mpi/plugin.c,\
  $(sort $(wildcard $(foreach d,core core/* io ops ops/* autograd graph dist dist/shm dist/mpi dist/nccl lua lua/*,src/$d/*.c))))
MAIN_SRC := $(filter-out $(of_other),$(sort $(wildcard src/main/*.c)))
ISA_SRC := $(sort $(wildcard kernels/cpu/isa/*.c kernels/cpu/*/isa/*.c))
BUILT_IN_SRC := $(filter-out $(ISA_SRC),$(sort $(wildcard kernels/meta/*.c kernels/cpu/*.c kernels/cpu/*/*.c)))
LUA_SRC := $(sort $(wildcard lua/tlua/*.lua lua/tlua/*/*.lua lua/tlua/*/*/*.lua))
BUILT_IN_SRC := $(filter-out kernels/cpu/left_out.c,$(BUILT_IN_SRC))
ifeq ($(PROFILE),)
LIB_SRC := $(filter-out src/lua/left_out.c,$(LIB_SRC))
else
LIB_SRC := $(filter-out src/dist/% $(if $(filter runtime,$(PROFILE)),src/lua/% src/io/%,src/graph/% \
  $(addprefix src/lua/,dist.c notebook.c program.c guards.c observe/profile.c)) \
  src/core/kernel/elementary.c src/core/kernel/portable.c,$(LIB_SRC))
ISA_SRC := $(filter-out %_c64.c %_c128.c,$(filter kernels/cpu/isa/% \
  $(foreach f,$(BASE_FAMILIES) $(KERNEL_FAMILIES),kernels/cpu/$f/%),$(ISA_SRC)))
BUILT_IN_SRC := kernels/cpu/backend.c kernels/cpu/left_out.c $(filter $(if $(filter runtime,$(PROFILE)),,kernels/meta/%) \
  $(foreach f,$(BASE_FAMILIES) $(KERNEL_FAMILIES),kernels/cpu/$f/%),$(BUILT_IN_SRC))
LUA_SRC := $(filter-out $(INFER_LUA_NOT:%=lua/tlua/%.lua),$(filter $(INFER_LUA:%=lua/tlua/%.lua),$(LUA_SRC)))
endif
SCHEMAS := $(sort $(wildcard src/ops/*/*.lua))
GENERATOR := $(sort $(wildcard src/gen/*.lua src/lua/*.lua)) \
  $(addprefix src/,tlua.h $(addprefix core/kernel/,iter.h fault.h parts.h image_kernels.h kernel.h lapack.h) $(addprefix core/device/,api.h backend.h host.h))

FAMILIES := $(basename $(notdir $(SCHEMAS)))
GEN_SRC := $(FAMILIES:%=$(GEN)/ops_%.c) $(if $(filter runtime,$(PROFILE)),,$(FAMILIES:%=$(GEN)/bind_%.c)) \
  $(if $(filter infer,$(PROFILE)),,$(GEN)/calls.c)
GEN_OTHER := $(addprefix $(GEN)/,ops.h calls.h kernels.h each_pointwise.h each_reduction.h each_scan.h bind.h manual.lua signatures.lua gradlist.lua operators.lua)

TILE_SRC := $(filter kernels/cpu/matmul/isa/tile_%,$(ISA_SRC))
LIB_OBJ := $(LIB_SRC:%.c=$(OBJ)/%.o) $(BUILT_IN_SRC:%.c=$(OBJ)/%.o) \
  $(foreach isa,$(ISAS),$(ISA_SRC:%.c=$(OBJ)/%.$(isa).o)) \
  $(foreach isa,$(UNFUSED_ISAS),$(TILE_SRC:%.c=$(OBJ)/%.$(isa).o)) \
  $(GEN_SRC:$(GEN)/%.c=$(OBJ)/gen/%.o) $(if $(filter runtime,$(PROFILE)),,$(OBJ)/gen/embed.o)
MAIN_OBJ := $(MAIN_SRC:%.c=$(OBJ)/%.o)
# Code that all plugins use is in kernels/device.
DEVICE_OBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard kernels/device/*.c)))
SIM_OBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard kernels/sim/*.c))) $(DEVICE_OBJ)
# Calls of cuBLAS, cuDNN and similar libraries are in kernels/cuda/lib. The emulated build replaces
# this folder by files of spec/cuda.
CUDA_SRC := $(sort $(wildcard kernels/cuda/*.c kernels/cuda/*/*.c kernels/cuda/*.cu kernels/cuda/*/*.cu))
CUDA_OBJ := $(CUDA_SRC:%=$(OBJ)/%.o) $(DEVICE_OBJ)
EMULATED := $(BUILD)/emulated
EMULATED_SRC := $(filter-out kernels/cuda/lib/%,$(CUDA_SRC)) $(sort $(wildcard spec/cuda/*.c spec/cuda/*.cc spec/cuda/lib/*.cc))
EMULATED_OBJ := $(EMULATED_SRC:%=$(EMULATED)/obj/%.o) $(DEVICE_OBJ)
# The emulator without the plugin, and the kernels that test it.
EMULATOR_TEST := $(EMULATED)/emulator_test
EMULATOR_OBJ := $(patsubst %,$(EMULATED)/obj/%.o,$(sort $(wildcard spec/cuda/*.cc spec/cuda/test/*.c[cu])))

EMBED_BIN := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard spec/embed/*.c)))
CORE_BIN := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard spec/core/*.c)))
LUA_BIN := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard spec/lua/*.c)))
# The specs' objects are separate files, so that a compiler cache can keep them.
SPEC_OBJ := $(patsubst $(BUILD)/%,$(OBJ)/%.o,$(EMBED_BIN) $(CORE_BIN) $(LUA_BIN))

STATIC_LIB := $(BUILD)/libtlua.a
SHARED_LIB := $(BUILD)/libtlua.so
SONAME := libtlua.so.0
TLUA := $(BUILD)/tlua
LIBRARIES := $(STATIC_LIB) $(SHARED_LIB)
# On Windows, a DLL must be linked with Lua, so the library can be a DLL only if Lua is a DLL too.
ifdef WINDOWS
SHARED_LIB := $(BUILD)/tlua.dll
SONAME := tlua.dll
TLUA := $(BUILD)/tlua.exe
LIBRARIES := $(STATIC_LIB) $(if $(filter %.dll %.dll.a %.lib,$(LUA_LIBS)),$(SHARED_LIB))
endif
# Plugins for devices other than the CPU, which are loaded when such a device is first used. The
# simulated device needs POSIX.
SIM_PLUGIN := $(BUILD)/tlua_sim.so
CUDA_PLUGIN := $(if $(filter-out 0,$(CUDA)),$(if $(WINDOWS)$(CROSS)$(WASM)$(APPLE)$(SANITIZE),,$(BUILD)/tlua_cuda.so))
# Plugins for process groups over MPI, one for each installed MPI library. The libraries have
# Debian's names. Installed MPI libraries use the system's C library, so musl-gcc cannot use them.
GLIBC := $(shell $(CC) -dM -E -include stdio.h -x c /dev/null 2>/dev/null | sed -n 's/^.define __GLIBC__ .*/yes/p')
MPIS := $(if $(WINDOWS)$(CROSS)$(WASM)$(APPLE)$(SANITIZE),,$(if $(GLIBC),$(if $(shell $(PKG_CONFIG) --exists ompi-c && \
  echo yes),openmpi) $(if $(shell $(PKG_CONFIG) --exists mpich && echo yes),mpich)))
MPI_PLUGINS := $(MPIS:%=$(BUILD)/tlua_mpi_%.so)
PLUGINS := $(if $(WINDOWS),,$(SIM_PLUGIN)) $(CUDA_PLUGIN) $(MPI_PLUGINS)
# The C module of the package serve, which loads libmicrohttpd at run time.
SERVE_MODULE := $(if $(WINDOWS)$(WASM),,$(BUILD)/tlua_serve.so)

VERSION = $(shell sed -n 's/^.define TL_VERSION "\(.*\)"/\1/p' src/tlua.h)

ifeq ($(V),0)
Q := @
say = @printf '  %-5s %s\n' $(1) $(2)
else
say = @:
endif

# ---- targets for users -----------------------------------------------------------

.PHONY: all demo test sim emulated clang cross test-arm platforms wasm asan emulated-asan tsan valgrind bench \
  registers traffic instructions races host-cost bundle gpu-check cuda-versions gpu-check-dry opinfo modinfo lint tidy-format docs notes deb abi rockspecs deps config help \
  install install-debug uninstall size infer runtime fuzz-programs fuzz-scripts race-programs clean

all: $(if $(PROFILE),$(STATIC_LIB) $(if $(filter runtime,$(PROFILE)),,$(BUILD)/digits),$(TLUA) $(LIBRARIES) $(PLUGINS) $(SERVE_MODULE)) ## build ./tlua and the libraries (default)
demo: ## install missing packages, build, and train on images of digits
test: ## install missing packages, build, and run all specs
cross: ## build for another machine: TARGET=aarch64-linux-gnu, x86_64-w64-mingw32 ...
sim: ## run the specs of tensors, operators and training on the simulated device
test-arm: ## build for ARM, and run the specs under qemu-user
platforms: ## build and test for other machines and compilers, and print a table: LUA_SOURCES=folder PLATFORMS='i686 musl'
wasm: ## build a page for browsers in build/wasm/page, by Emscripten
emulated: ## run the specs of tensors, operators, training and GPUs with the GPU's kernels, which an emulator runs on the CPU
clang: ## build with clang, and run the specs of operators and of the core
asan: ## run all specs under the address and undefined-behaviour sanitizers
emulated-asan: ## run the GPU's kernels in the emulator under these sanitizers
tsan: ## run all specs under the thread sanitizer
valgrind: ## run all specs under valgrind
bench: ## measure the times of operators, layers and training steps
registers: ## print the registers of the GPU's kernels; fails if a kernel spills registers to memory
traffic: ## count the bytes that the GPU's kernels move; fails if a kernel moves a tenth more than necessary
instructions: ## count the instructions of the GPU's kernels for each element; fails if they take longer than the memory accesses
races: ## search for races between threads of the GPU's kernels
host-cost: ## measure the host's time for calling an operator on a GPU; fails above 1.5 microseconds
bundle: ## make a folder, build/bundle, that runs specs and benchmarks on a machine with a GPU
gpu-check: ## run all tests that need a GPU: specs, compute-sanitizer, benchmarks
gpu-check-dry: ## test the script of gpu-check in a short run without a GPU
cuda-versions: ## compile the host's code of the GPU plugin for CUDA 12 and 13
opinfo: ## compare operators with PyTorch 2: PYTHON=python OP="add sum"
modinfo: ## compare modules, optimizers and schedules with PyTorch 2: OP="Linear Adam"
lint: ## run luacheck, clang-format and cppcheck
tidy-format: ## format the C files by clang-format
docs: ## write the reference as a web site in build/docs
notes: ## write release notes from the subjects of commits: FROM=v0.9.0
deb: ## make Debian packages of this build in build/deb: DEBEMAIL=you@host
rockspecs: ## write rockspecs of this version in build/rockspecs
deps: ## install missing packages (on Debian), or list them
config: ## print the compiler, libraries and settings that were found
install: ## install in PREFIX (/usr/local), below DESTDIR
install-debug: ## install, with debug information in separate files
uninstall: ## remove the installed files
infer: ## build a small library for trained models: PROFILE=infer OPS='conv2d relu'
runtime: ## build a library that runs one program of torch.export: PROGRAM=model.tlp
fuzz-programs: ## load damaged files of programs under the address sanitizer: ROUNDS=1000000
fuzz-scripts: ## run hostile scripts in sandboxes under the sanitizers: SEEDS='1 2' ROUNDS=100000
race-programs: ## run programs in several threads under the thread sanitizer
size: ## print the sizes of the library and of an installation; fails above their limits
abi: ## record the binary interface of the public header, after a name was added
clean: ## remove everything that was built
help: ## print this list

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1:\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS=: read -r name text; do printf '%-20s %s\n' "$$name" "$$text"; done
	@echo 'To run one spec: make test SPEC=spec/ops/reduction_spec.lua FILTER=sums. The top of Makefile explains all settings.'

# Calls make again after the installation, so that it finds the new packages. The demo builds only
# the command, with loops for the best instruction set of this processor; `make` builds the rest.
demo:
	@.ci/deps build
	@$(MAKE) --no-print-directory ISAS='$(HERE_ISA)' tlua
	./tlua examples/digits.lua

test:
	@.ci/deps build test
	@$(MAKE) --no-print-directory check

# Builds in build/TARGET, with the compiler named TARGET-gcc. The compiler (Debian: gcc-TARGET) and
# Lua 5.4 for the other machine must be installed already.
cross:
	@test -n '$(TARGET)' || { echo 'cross: what for? TARGET=aarch64-linux-gnu, say' >&2; exit 2; }
	@command -v $(TARGET)-gcc >/dev/null || { echo 'cross: no compiler $(TARGET)-gcc was found' \
	  '(Debian: gcc-$(TARGET), for Windows gcc-mingw-w64-x86-64)' >&2; exit 1; }
	@+$(MAKE) --no-print-directory CC='$(CCACHE) $(TARGET)-gcc' BUILD=$(BUILD)/$(TARGET) all

# The specs need the libraries that `tlua doctor` names, installed for ARM (Debian: with :arm64).
# Left out are specs that build, that test commands for users, that start other processes of tlua,
# or that measure memory, because these are tested on this machine. Also left out are wrong calls,
# which behave in the same way on every processor, and the simulated device, because both take
# minutes under emulation.
ARM := aarch64-linux-gnu
# The dynamic loader and the libraries must belong to the same C library, otherwise the program
# hangs when it starts its first thread. This is the C library of the installed :arm64 packages or,
# without these packages, the one that came with the compiler.
ARM_ROOT := $(if $(wildcard /lib/ld-linux-aarch64.so.1),/,/usr/$(ARM))
test-arm: TARGET = $(ARM)
test-arm:
	@command -v qemu-aarch64 >/dev/null || { echo 'test-arm: no qemu-aarch64 (Debian: qemu-user)' >&2; exit 1; }
	@+$(MAKE) --no-print-directory cross TARGET=$(ARM)
	@+SPEC_EMULATED=1 $(MAKE) --no-print-directory CC='$(CCACHE) $(ARM)-gcc' BUILD=$(BUILD)/$(ARM) SPEC_SANITIZED=1 \
	  SPEC_ARGS="--wrap 'qemu-aarch64 -L $(ARM_ROOT)' --exclude spec/build --exclude spec/main \
	  --exclude spec/dist --exclude spec/examples --exclude spec/core/cudnn --exclude spec/profiler/threads \
	  --exclude rocks/mlflow --exclude rocks/hub --exclude rocks/wandb --exclude spec/memory --exclude spec/embed/memory --exclude spec/device \
	  --exclude spec/ops/fuzz $(SPEC_ARGS)" check

# Builds and tests for each platform whose compiler is installed, with a Lua that is built from
# LUA_SOURCES.
PLATFORMS ?=
platforms:
	@+CCACHE='$(CCACHE)' LUA_SOURCES='$(LUA_SOURCES)' SPEC='$(SPEC)' .ci/platforms '$(BUILD)' $(PLATFORMS)

# Builds a page for `python3 -m http.server -d build/wasm/page`. It has only one thread, since
# browsers allow threads only on pages whose server isolates them.
EMCC ?= emcc
PAGE := $(BUILD)/page
wasm:
	@command -v $(EMCC) >/dev/null || { echo 'wasm: no emcc was found (Debian: emscripten)' >&2; exit 1; }
	@+$(MAKE) --no-print-directory CC=$(EMCC) AR=emar BUILD=$(BUILD)/wasm TARGET=wasm page

.PHONY: page
page: $(PAGE)/tlua.js $(PAGE)/index.html $(PAGE)/worker.js
$(PAGE)/%: examples/wasm/%
	@mkdir -p $(@D) && cp $< $@
$(PAGE)/tlua.js: examples/wasm/host.c $(STATIC_LIB) examples/digits.lua examples/data/digits.csv
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -Isrc $(LUA_CFLAGS) $(TL_CFLAGS) -o $@ $< $(STATIC_LIB) $(LUA_LIBS) $(TL_LIBS) \
	  -O1 -g0 -sALLOW_MEMORY_GROWTH=1 -sEXPORTED_RUNTIME_METHODS=cwrap -sENVIRONMENT=web,worker,node \
	  --embed-file examples/digits.lua@/digits.lua --embed-file examples/data@/data

ifeq ($(BUILD),build)
all: tlua
	@$(if $(filter 0,$(CUDA)),touch,rm -f) $(BUILD)/without_cuda
tlua: $(TLUA) $(SERVE_MODULE)
	@ln -sf $(TLUA) $@
endif

deps:
	@.ci/deps build test lint docs optional

config:
	@printf '%-12s %s\n' \
	  compiler "$(CC): $(or $(shell $(CC) --version 2>/dev/null | head -n 1),not found)" \
	  machine '$(machine)$(if $(CROSS), (another than this one))' \
	  cflags '$(strip $(CFLAGS) $(SANITIZE))' \
	  lua '$(or $(LUA),none: a small host is built)' \
	  lua.h '$(or $(LUA_CFLAGS),not found: run make deps or set LUA_INCDIR)' \
	  liblua '$(LUA_LIBS)' \
	  isas '$(ISAS)' \
	  families '$(FAMILIES)' \
  cuda '$(or $(filter-out 0,$(CUDA)),not found: no plugin for GPUs)' \
	  mpi '$(or $(strip $(MPIS)),none: no process groups over MPI)' \
	  version '$(VERSION)'

clean:
	rm -rf $(BUILD)
	@rm -f tlua

# ---- building --------------------------------------------------------------------

# Each of these files is written only if its content has changed, so that its dependents are rebuilt
# only then.
update = @mkdir -p $(@D) && printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' >$@
.PHONY: FORCE
$(OBJ)/flags.txt: FORCE
	$(call update,$(COMPILE) $(KERNEL_CFLAGS) $(NO_UNWINDING) $(FEWER_UNROLLED) $(TL_LDFLAGS) $(LUA_LIBS) $(TL_LIBS))
$(OBJ)/files.txt: FORCE
	$(call update,$(LIB_OBJ) $(MAIN_OBJ) $(SIM_OBJ) $(LUA_SRC))
$(GEN)/files.txt: FORCE
	$(call update,$(SCHEMAS) $(GENERATOR) $(if $(PROFILE),$(OPS) $(MODE)))
# The instruction sets, the best one first, in the order in which the library tries them at run
# time.
reverse = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
$(GEN)/isas.h: FORCE
	$(call update,#define TLK_ISAS(X) $(patsubst %,X(%),$(call reverse,$(ISAS))))
$(OBJ)/kernels/cpu/backend.o: $(GEN)/isas.h

# The generator writes a file only if its content has changed. The stamp records when the generator
# ran, and the files' own times decide which objects are compiled again.
$(GEN)/stamp: $(SCHEMAS) $(GENERATOR) $(GEN)/files.txt $(if $(LUA),,$(BUILD)/host)
	$(call say,GEN,$(GEN))
	$(Q)mkdir -p $(GEN) $(if $(filter runtime,$(PROFILE)),$(foreach f,header sources,&& $(LUA) src/gen/runtime.lua $f $(PROGRAM) \
	  >$(GEN)/runtime.$f)) && $(or $(LUA),$(BUILD)/host) src/gen/main.lua $(GEN) $(if $(PROFILE),'$(strip $(OPS))') \
	  $(if $(filter runtime,$(PROFILE)),$(GEN)/runtime.sources $(MODE) && \
	  { cmp -s $(GEN)/runtime.header $(GEN)/runtime_kernels.h || cp $(GEN)/runtime.header $(GEN)/runtime_kernels.h; })
	@touch $@
$(GEN_SRC) $(GEN_OTHER): $(GEN)/stamp
	@test -f $@

$(GEN)/embed.c: $(LUA_SRC) $(GEN)/manual.lua $(GEN)/signatures.lua src/gen/embed.lua src/gen/pack.lua $(OBJ)/files.txt
	$(call say,GEN,$@)
	$(Q)$(or $(LUA),$(BUILD)/host) src/gen/embed.lua $(if $(PROFILE),--bare) $@ lua/tlua $(LUA_SRC) $(if $(PROFILE),\
	  tlua.left_out=$(GEN)/left_out.lua,tlua.manual=$(GEN)/manual.lua tlua.port.signatures=$(GEN)/signatures.lua)

# A small program that runs the generators if no Lua interpreter is installed.
$(BUILD)/host: src/gen/lua_host.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LUA_CFLAGS) $(CFLAGS) -o $@ $< $(LUA_LIBS) -lm -ldl

$(OBJ)/%.o: %.c $(OBJ)/flags.txt | $(GEN)/stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(if $(filter kernels/% src/dist/reduce.c,$<),$(KERNEL_CFLAGS)) $(FLAGS_OF_FILE) \
	  $(if $(filter-out src/lua/% src/main/% spec/%,$<),$(NO_UNWINDING)) -c -o $@ $<

$(OBJ)/gen/%.o: $(GEN)/%.c $(OBJ)/flags.txt | $(GEN)/stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(FLAGS_OF_FILE) $(if $(filter $(GEN)/ops_% $(GEN)/calls.c,$<),$(NO_UNWINDING)) -c -o $@ $<

# These options come after TL_CFLAGS in the command, so they override it.
$(foreach isa,$(ISAS),$(eval ISA_MATH_$(isa) := $(if $(filter $(isa),$(PORTABLE_ISAS)),-DTLK_PORTABLE,\
  $(if $(filter $(UNFUSED),$(TL_CFLAGS)),-ffp-contract=fast))))
define isa_rule
$(OBJ)/%.$(1).o: %.c $(OBJ)/flags.txt | $(GEN)/stamp
	$$(call say,CC,"$$< ($(1))")
	@mkdir -p $$(@D)
	$$(Q)$$(COMPILE) $$(KERNEL_CFLAGS) $$(NO_UNWINDING) $$(FLAGS_OF_FILE) -DTLK_ISA=$(1) $$(ISA_FLAGS_$(1)) $$(ISA_MATH_$(1)) -c -o $$@ $$<
endef
$(foreach isa,$(ISAS) $(UNFUSED_ISAS),$(eval $(call isa_rule,$(isa))))
$(OBJ)/kernels/cpu/backend.o: FLAGS_OF_FILE := $(UNFUSED_ISAS:%=-DTLK_BUILT_%)
$(foreach isa,$(ISAS),$(OBJ)/kernels/cpu/reduce/isa/reduce_i32.$(isa).o \
  $(OBJ)/kernels/cpu/reduce/isa/reduce_i64.$(isa).o): FLAGS_OF_FILE := $(FEWER_UNROLLED)
# In products of complex numbers some terms must cancel exactly, such as the imaginary part of the
# product of a number and its conjugate. Fused multiply-add would leave a rounding error.
$(foreach isa,$(ISAS),$(eval $(foreach type,c64 c128,$(OBJ)/kernels/cpu/pointwise/isa/pointwise_$(type).$(isa).o): \
  ISA_MATH_$(isa) += $(UNFUSED)))
$(OBJ)/src/core/device/plugin.o: FLAGS_OF_FILE = -DTLI_MULTIARCH='"$(shell $(CC) -print-multiarch 2>/dev/null)"'
$(OBJ)/kernels/cpu/pointwise/rare.o: FLAGS_OF_FILE := -O2 -fno-tree-vectorize -fno-inline
# This file has no loops over elements, and -O3 makes it three times as large without making it faster.
$(OBJ)/kernels/cpu/pointwise/pointwise.o: FLAGS_OF_FILE := -O2
# Some code has no loops over elements and runs at most once for each call of an operator. It is
# compiled for size if `make bench` shows no difference, which makes it a fifth smaller.
SMALL_FAMILIES := attention attention_backward binomial cached_attention complex conv cross_entropy csr ctc einsum \
  eigen fft flash_attention fold gamma gate gather gradient grid_sample householder lapack least_squares linalg \
  linear_activation linear_cross_entropy loss masked matrix_norm matrix_power matrix_roots multinomial nonzero norm \
  one_hot packed_linear padding pinv poisson polynomials pool products qr quantile quantized rearrange resample rnn \
  rnn_layer rotary_embedding scan search special statistics swiglu tensor_solve unique
# The binding code of these families takes a noticeable part of the time of a small operator, so it
# is not compiled for size.
QUICK_FAMILIES := activation arithmetic copy creation layer_norm linear logic math matmul reduce softmax views
SMALL_SRC := $(filter-out src/dist/reduce.c src/graph/run.c $(addprefix src/lua/,pacer.c patterns.c state.c),\
  $(filter src/dist/% src/graph/% $(addprefix src/lua/,devices/% observe/% workers/% io/files.c io/socket.c \
  args/batched.c args/sparse.c args/stored.c autograd/autograd.c tensor/generator.c tensor/print.c) \
  $(wildcard src/lua/*.c $(SMALL_FAMILIES:%=src/ops/*/%.c)),$(LIB_SRC)))
FOR_SIZE := $(if $(filter -O2 -Os,$(CFLAGS)),-Os)
SMALL_OBJ := $(filter $(SMALL_SRC:%.c=$(OBJ)/%.o) $(SMALL_FAMILIES:%=$(OBJ)/gen/ops_%.o) \
  $(filter-out $(QUICK_FAMILIES:%=$(OBJ)/gen/bind_%.o),$(FAMILIES:%=$(OBJ)/gen/bind_%.o)) $(OBJ)/gen/calls.o,$(LIB_OBJ))
$(SMALL_OBJ) $(filter $(OBJ)/kernels/cpu/linalg/%,$(LIB_OBJ)): FLAGS_OF_FILE := $(FOR_SIZE)
$(SMALL_OBJ): $(OBJ)/small.txt
$(OBJ)/small.txt: FORCE
	$(call update,$(FOR_SIZE))

# The command and the libraries find the packages of a checkout through this link. It is relative,
# so that the checkout can be moved.
space := $(subst ,, )
up := $(if $(filter /%,$(BUILD)),$(CURDIR),$(subst $(space),/,$(patsubst %,..,$(subst /, ,$(BUILD)))))
$(BUILD)/rocks:
	@mkdir -p $(@D) && ln -sfn '$(up)/rocks' $@
$(TLUA) $(SHARED_LIB): | $(BUILD)/rocks

$(STATIC_LIB): $(LIB_OBJ) $(OBJ)/files.txt
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $(LIB_OBJ)

# The shared library is not linked with Lua, except on Windows. It gets Lua's functions from the
# host, whichever version of Lua the host has.
$(SHARED_LIB): $(LIB_OBJ) $(OBJ)/files.txt src/tlua.map
	$(call say,LD,$@)
	$(Q)$(CC) $(TL_CFLAGS) $(TL_LDFLAGS) $(SHARED_FLAGS) -o $@ $(LIB_OBJ) $(if $(WINDOWS),$(LUA_LIBS)) $(TL_LIBS)
	@test $(@F) = $(SONAME) || ln -sf $(@F) $(@D)/$(SONAME)

# A plugin does not link with the library. It gets the library's functions in a table.
$(SIM_PLUGIN): $(SIM_OBJ) $(OBJ)/files.txt
	$(call say,LD,$@)
	$(Q)$(CC) $(TL_CFLAGS) $(TL_LDFLAGS) -shared -Wl,-z,nodelete -o $@ $(SIM_OBJ) $(TL_LIBS)

# This module uses nothing of the library, only Lua, whose functions it finds in the program that
# loads it.
$(SERVE_MODULE): $(wildcard rocks/serve/*.[ch]) $(OBJ)/flags.txt
	$(call say,LD,$@)
	$(Q)$(CC) $(LUA_CFLAGS) $(TL_CFLAGS) $(TL_LDFLAGS) $(if $(APPLE),-dynamiclib -undefined dynamic_lookup,-shared -Wl,-z$(comma)nodelete) \
	  -o $@ $(filter %.c,$^) $(if $(APPLE),,-ldl -lpthread) -lm

# The MPI plugins use nothing of the library. They are linked only with MPI itself, which finds the
# libraries that it needs.
MPI_PC_openmpi := ompi-c
MPI_PC_mpich := mpich
$(BUILD)/tlua_mpi_%.so: src/dist/mpi/plugin.c src/dist/mpi/table.h $(OBJ)/flags.txt
	$(call say,LD,$@)
	$(Q)$(COMPILE) $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(MPI_PC_$*))) -MF $(OBJ)/mpi_$*.d \
	  $(TL_LDFLAGS) -shared -Wl,-z,nodelete -o $@ $< $(filter -L% -lmpi -lmpich,$(shell $(PKG_CONFIG) --libs $(MPI_PC_$*)))

# The GPU's plugin: nvcc compiles the kernels, and the C compiler compiles the host's code.
NVCC := $(CUDA)/bin/nvcc
# The compiler's front end runs only once, for the lowest architecture, because no kernel depends on
# __CUDA_ARCH__ and the front end takes more than half of the time. Compressed code needs CUDA 12.4.
ifdef CUDA_PLUGIN
CUDA_ARCH := $(CUDA_ARCH)
CUDA_PTX := $(shell printf '%s\n' $(CUDA_ARCH) | sort -n | head -n 1)
compressed := $(if $(filter 0,$(PTX_ONLY)),$(if $(shell $(NVCC) --help | grep compress-mode),--compress-mode=size))
# With PTX_ONLY, these files are nevertheless compiled for all architectures: they contain all
# instructions that kernels write as text, which only the assembler checks.
ASSEMBLED := $(addprefix kernels/cuda/,attention/grouped_queries.cu matmul/linear.cu)
endif
NVCC_FLAGS = -std=c++17 $(NVCC_OPT) $(compressed) -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra \
  $(if $(filter-out 0,$(WERROR)),-Werror all-warnings) \
  -gencode arch=compute_$(CUDA_PTX),code=[$(subst $() ,$(comma),$(strip compute_$(CUDA_PTX) \
  $(if $(if $(filter 0,$(PTX_ONLY)),,$(filter-out $(ASSEMBLED),$<)),,$(CUDA_ARCH:%=sm_%))))]
$(OBJ)/cuda_flags.txt: FORCE
	$(call update,$(NVCC) $(NVCC_FLAGS) $(TL_CPPFLAGS) $(CUDA_OBJ))
# Keeps the assembler's report on each kernel beside the object, for `make registers`.
$(OBJ)/%.cu.o: %.cu $(OBJ)/cuda_flags.txt | $(GEN)/stamp
	$(call say,NVCC,$<)
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(NVCC) $(NVCC_FLAGS) -Xptxas -v -Isrc -I. -I$(GEN) -MMD -MP -c -o $@ $< 2>$@.txt || \
	  { cat $@.txt >&2; exit 1; }
	@grep -A9 -i 'warning' $@.txt >&2 || true
$(OBJ)/kernels/cuda/%.c.o: kernels/cuda/%.c $(OBJ)/flags.txt $(OBJ)/cuda_flags.txt | $(GEN)/stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -DTLK_CUDA_ARCH='"$(CUDA_ARCH)"' -DTLK_CUDA_PTX='"$(CUDA_PTX)"' -isystem $(CUDA)/include \
	  -isystem $(CUDA)/extras/CUPTI/include -c -o $@ $<
$(CUDA_PLUGIN): $(CUDA_OBJ) $(OBJ)/cuda_flags.txt
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -cudart static -Xlinker -z,nodelete,-z,defs -o $@ $(CUDA_OBJ) $(CUDA_LIBS)
CUDA_LIBS = -L$(CUDA)/lib64 -lcublasLt -lpthread -ldl -lm

# The emulated build compiles the same sources with the headers in spec/cuda/include. Kernels then
# run on the CPU, with a fiber for each thread.
EMULATE = -DTLK_EMULATED -DTLK_CUDA_ARCH='"80 90"' -DTLK_CUDA_PTX='"80"' -Ispec/cuda/include
$(EMULATED)/obj/%.c.o: %.c $(OBJ)/flags.txt | $(GEN)/stamp
	$(call say,CC,"$< (emulated)")
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(EMULATE) -c -o $@ $<
# Two families are compiled without optimisation, because otherwise they would take half of the
# compile time, although their code runs only briefly.
$(addprefix $(EMULATED)/obj/kernels/cuda/,pointwise/% reduce/%): EMULATED_O := -O0
EMULATED_O := -O1
emulate_cxx = $(CXX) -std=gnu++17 -x c++ $(EMULATE) $(TL_CPPFLAGS) $(EMULATED_O) -g1 -fPIC -pthread -fvisibility=hidden \
  -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function -Wno-attributes $(if $(filter-out 0,$(WERROR)),-Werror) \
  $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer) -MMD -MP
$(EMULATED)/obj/%.cu.o: %.cu $(OBJ)/flags.txt | $(GEN)/stamp
	$(call say,CXX,"$< (emulated)")
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(emulate_cxx) -D__CUDACC__ -include cuda_runtime.h -c -o $@ $<
$(EMULATED)/obj/%.cc.o: %.cc $(OBJ)/flags.txt | $(GEN)/stamp
	$(call say,CXX,"$<")
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(emulate_cxx) -c -o $@ $<
PRECOMPILED := $(EMULATED)/precompiled/cuda_runtime.h.gch
$(EMULATED)/tlua_cuda.so: $(EMULATED_OBJ) $(OBJ)/files.txt $(PRECOMPILED)
	$(call say,LD,$@)
	$(Q)$(CXX) $(TL_LDFLAGS) -shared -Wl,-z,nodelete$(if $(SANITIZE),,$(comma)-z$(comma)defs) -o $@ $(EMULATED_OBJ) $(TL_LIBS)

# Kernels that are generated at run time are compiled with the same options as the plugin, which
# contains the text of the headers that they include. The common headers are precompiled, because
# otherwise they would take half of a kernel's compile time.
GENERATED_CXX = $(CXX) -I$(EMULATED)/precompiled -I$(GEN) -std=gnu++17 -DTLK_EMULATED -DTLK_GENERATED \
  -D__CUDACC__ -Ispec/cuda/include -Isrc -I. -O1 -w -fPIC
$(EMULATED)/obj/spec/cuda/lib/nvrtc.cc.o: EMULATE += -DTLK_EMULATED_CXX='"$(GENERATED_CXX)"'
$(PRECOMPILED): spec/cuda/include/cuda_runtime.h $(wildcard spec/cuda/include/*.h spec/cuda/include/*/*.h) $(OBJ)/flags.txt
	$(call say,CXX,"$< (precompiled)")
	@mkdir -p $(@D)
	$(Q)$(GENERATED_CXX) -x c++-header -o $@ $<
$(OBJ)/kernels/cuda/fusion/source.c.o $(EMULATED)/obj/kernels/cuda/fusion/source.c.o: \
  $(addprefix kernels/,bessel.h special.h math.h fused.h) $(addprefix src/core/kernel/,host_device.h random.h fault.h) \
  $(addprefix kernels/cuda/,fault.h random/drop.h element.cuh fusion/call.h fusion/loop.cuh)

# A replacement for NCCL that exchanges data between processes.
EMULATED_NCCL := $(EMULATED)/libnccl.so.2
$(EMULATED_NCCL): $(EMULATED)/obj/spec/cuda/nccl/nccl.c.o
	$(call say,LD,$@)
	$(Q)$(CC) $(TL_LDFLAGS) -shared -o $@ $< $(TL_LIBS)

$(EMULATOR_TEST): $(EMULATOR_OBJ)
	$(call say,LD,$@)
	$(Q)$(CXX) $(TL_LDFLAGS) -o $@ $(EMULATOR_OBJ) $(TL_LIBS)

$(TLUA): $(MAIN_OBJ) $(LIB_OBJ) $(OBJ)/files.txt
	$(call say,LD,$@)
	$(Q)$(CC) $(TL_CFLAGS) $(TL_LDFLAGS) $(PROGRAM_FLAGS) $(NODE_FLAGS) -o $@ $(MAIN_OBJ) $(LIB_OBJ) $(LUA_LIBS) $(TL_LIBS)

ifneq ($(LUA_SOURCES),)
$(TLUA) $(EMBED_BIN) $(LUA_BIN): $(BUILD)/liblua.a
$(BUILD)/liblua.a: $(patsubst $(LUA_SOURCES)/%.c,$(OBJ)/lua/%.o,$(filter-out %/lua.c %/luac.c %/onelua.c %/ltests.c,$(wildcard $(LUA_SOURCES)/*.c)))
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^
$(OBJ)/lua/%.o: $(LUA_SOURCES)/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 $(if $(WINDOWS),,-DLUA_USE_POSIX $(if $(WASM),,-DLUA_USE_DLOPEN -fPIC)) \
	  $(filter -msse2 -mfpmath=sse,$(TL_CFLAGS)) -c -o $@ $<
endif

# The example program of the profile infer, a C program that contains everything it needs.
$(BUILD)/digits: examples/infer/digits.c $(STATIC_LIB)
	$(call say,LD,$@)
	$(Q)$(CC) -Isrc $(LUA_CFLAGS) $(TL_CFLAGS) $(TL_LDFLAGS) -o $@ $< $(call whole,$(STATIC_LIB)) \
	  $(filter-out -Wl$(comma)--whole-archive -Wl$(comma)--no-whole-archive,$(LUA_LIBS)) $(TL_LIBS)

$(BUILD)/program_test: spec/core/program_test.c $(STATIC_LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(TL_CPPFLAGS) -Ispec/support $(TL_CFLAGS) $(TL_LDFLAGS) -o $@ $< $(call whole,$(STATIC_LIB)) $(TL_LIBS)

# A C program that runs an exported program on one input, linked with the library for that program.
$(BUILD)/answer: examples/deploy/answer.c $(STATIC_LIB)
	$(call say,LD,$@)
	$(Q)$(CC) -Isrc $(TL_CFLAGS) $(TL_LDFLAGS) $(PACKED) -o $@ $< $(call whole,$(STATIC_LIB)) $(TL_LIBS)

ifeq ($(and $(strip $(LUA_CFLAGS)),$(strip $(LUA_LIBS))),)
$(OBJ)/flags.txt: need-lua
need-lua:
ifdef CROSS
	@printf '%s\n' 'Lua 5.4 for $(or $(TARGET),$(machine)) was not found: give LUA_INCDIR=FOLDER (of lua.h)' \
	  'and LUA_LIBS=FILE (liblua.a, built for it). Debian has it for its other processors:' \
	  '  dpkg --add-architecture arm64; apt update; apt install liblua5.4-dev:arm64' >&2; exit 1
else
	@echo 'lua.h of Lua 5.4 or 5.5 was not found: run `make deps`, or give LUA_INCDIR=folder.' >&2; exit 1
endif
endif
ifdef CROSS
ifeq ($(LUA),)
$(BUILD)/host: need-interpreter
need-interpreter:
	@echo 'to build for another machine Lua 5.4 must be installed on this one, too' >&2; exit 1
endif
endif

# ---- testing ---------------------------------------------------------------------

.PHONY: specs check platform run-specs lint-lua lint-format lint-c emulated-build clang-build asan-build infer-build

# Programs that embed tlua are compiled with tlua.h as the only header of the library.
$(BUILD)/include/tlua.h: src/tlua.h
	@mkdir -p $(@D) && cp $< $@
$(OBJ)/spec/embed/%.o: spec/embed/%.c $(BUILD)/include/tlua.h $(OBJ)/flags.txt
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -I$(BUILD)/include -Ispec/support $(LUA_CFLAGS) $(TL_CFLAGS) -MMD -MP -c -o $@ $<
$(EMBED_BIN): $(BUILD)/%: $(OBJ)/%.o $(STATIC_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TL_CFLAGS) $(TL_LDFLAGS) -o $@ $< $(STATIC_LIB) $(LUA_LIBS) $(TL_LIBS)

# C specs that test the inside of the engine. They use its internal headers, and its hidden
# functions in the static library. They are not linked with Lua, because only code in src/lua may
# need it. On Windows they use MinGW's POSIX threads, which the library does not use.
$(SPEC_OBJ): FLAGS_OF_FILE := -Ispec/support
$(CORE_BIN): $(BUILD)/%: $(OBJ)/%.o $(STATIC_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TL_CFLAGS) $(TL_LDFLAGS) -o $@ $< $(STATIC_LIB) $(TL_LIBS) \
	  $(if $(WINDOWS),-Wl$(comma)-Bstatic -lpthread)

# The test of the code that reads CUPTI's records needs CUPTI's headers, but no GPU.
$(OBJ)/spec/core/cupti_test.o $(OBJ)/spec/core/fusion_test.o: FLAGS_OF_FILE += $(if $(filter-out 0,$(CUDA)),-isystem \
  $(CUDA)/include -isystem $(CUDA)/extras/CUPTI/include)

# This test replaces the C library's functions that allocate memory, in all objects that are linked
# with it.
$(BUILD)/spec/lua/scarce_test: private TL_LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc posix_memalign strdup)
# C specs that test the inside of the Lua binding, linked with Lua.
$(LUA_BIN): $(BUILD)/%: $(OBJ)/%.o $(STATIC_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TL_CFLAGS) $(TL_LDFLAGS) -o $@ $< $(STATIC_LIB) $(LUA_LIBS) $(TL_LIBS)

# The environment of specs. TLUA and TLUA_BUILD tell them the paths of the command and of the build.
# Specs may call make themselves. These calls must not inherit the flags of this make, and must not
# build the GPU's plugin again.
SPEC_ENV = env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL TLUA='$(TLUA)' TLUA_BUILD='$(BUILD)' \
  CC='$(CC)' CUDA=0
SPEC_ARGS :=
# Runs two more jobs than there are cores, since specs spend half of the time waiting for other
# processes.
SPEC_JOBS = $(shell echo $$(($(JOBS) + 2)))
define run_specs
@$(SPEC_ENV) $(or $(LUA),$(BUILD)/host) spec/support/run.lua --jobs $(SPEC_JOBS) \
  $(if $(FILTER),--filter '$(FILTER)') $(if $(SPEC),,--exclude spec/cuda --exclude spec/profiles) $(SPEC_ARGS) $(SPEC)
endef
# The C programs that are in the folders of SPEC or below them.
SPEC_BIN = $(EMBED_BIN) $(CORE_BIN) $(LUA_BIN)
SPEC_IN = $(foreach s,$(SPEC),$(BUILD)/$(if $(filter %.lua,$s),$(dir $s),$(s:.c=))%)
specs: all $(if $(SPEC),$(filter $(SPEC_IN),$(SPEC_BIN)),$(SPEC_BIN))
check: specs
	$(run_specs)

# .ci/platforms uses these two targets: `platform` builds the command and the C programs in SPEC,
# and `run-specs` runs the specs.
platform: $(TLUA) $(if $(WINDOWS)$(WASM),,$(SIM_PLUGIN)) $(patsubst %.c,$(BUILD)/%,$(filter %.c,$(SPEC)))
run-specs:
	$(run_specs)

# With clang, only the specs of operators and of the core run, since compilers differ in warnings
# and in numbers of the C code. The numbers come from the kernels, so only kernels are optimised as
# usual. They are compiled for the lowest instruction set, which no other CI run tests. Left out are
# specs whose results do not depend on the compiler: wrong calls, cuDNN's results, and how threads
# share work.
CLANG ?= clang
WITHOUT_CLANG = --exclude spec/ops/fuzz --exclude spec/ops/threads --exclude spec/core/cudnn_spec
CLANG_BUILD = $(MAKE) --no-print-directory CC='$(CLANG)' BUILD=$(BUILD)/clang ISAS=base CUDA=0 CFLAGS=-O0
clang:
	@.ci/deps build test clang
	@+$(CLANG_BUILD) SPEC='$(or $(SPEC),spec/ops spec/core)' SPEC_ARGS='$(WITHOUT_CLANG) $(SPEC_ARGS)' check
clang-build:
	@+$(CLANG_BUILD) SPEC='spec/ops spec/core' specs

# The specs of the build are left out, since they find no errors of memory or threads.
# SPEC_SANITIZED tells specs that everything takes ten times as long.
export SPEC_SANITIZED
# To detect uses after a return, gcc 12 moves stack frames to the heap, where they are not aligned
# for vectors of 64 bytes. So this check is turned off.
FRAMES_ON_STACK := $(call accepts,--param=asan-use-after-return=0)
SANITIZING = $(MAKE) --no-print-directory BUILD=$(BUILD)/$(1) SANITIZE=$(2) ISAS=native \
  CFLAGS='-O1 -g1' KERNEL_CFLAGS='-O1 -g1 -fno-math-errno -fno-trapping-math $(FRAMES_ON_STACK)'
SANITIZED = $(SANITIZING) \
  SPEC_ARGS='--exclude spec/build $(3) $(SPEC_ARGS)' SPEC_SANITIZED=1 check
SUPPRESSIONS := $(CURDIR)/spec/support

# Runs specs with the simulated device as the default device. Left out are the gradient checks of
# table_spec, which compute in float64 and change one element at a time; spec/device/waits_spec.lua
# tests the same table for bits, gradients and waits. Also left out are specs of threads and of long
# graphs, since both concern only the host.
SIM_SPECS = spec/ops spec/autograd spec/nn spec/optim spec/profiler spec/graph
SIM_ARGS = --exclude spec/ops/table --exclude spec/ops/threads --exclude spec/autograd/large
sim:
	@.ci/deps build test
	@TLUA_SPEC_DEVICE=sim $(MAKE) --no-print-directory SPEC='$(or $(SPEC),$(SIM_SPECS))' \
	  SPEC_ARGS='$(if $(SPEC),,$(SIM_ARGS)) $(SPEC_ARGS)' check

# Runs the same specs, and those of devices and GPUs, on the emulated GPU (spec/cuda). Left out are
# wrong calls (the specs fuzz and names), since they reach no kernel, and specs of programs that the
# simulated device runs too; other specs of programs stay. TLUA_EMULATED_SEED changes the order of
# threads.
EMULATED_SPECS = $(SIM_SPECS) spec/cuda spec/device
emulated-build:
	@+$(MAKE) --no-print-directory CUDA=0 $(EMULATED)/tlua_cuda.so $(EMULATED_NCCL) $(SIM_PLUGIN)
	@ln -sf ../tlua_sim.so $(EMULATED)/tlua_sim.so
	$(if $(filter-out spec/cuda%,$(SPEC)),,@+$(MAKE) --no-print-directory emulator)
emulated:
	@.ci/deps build test
	@+$(MAKE) --no-print-directory emulated-build
	@+TLUA_SPEC_DEVICE=cuda TLUA_PLUGINS='$(abspath $(EMULATED))' $(MAKE) --no-print-directory CUDA=0 \
	  SPEC='$(or $(SPEC),$(EMULATED_SPECS))' SPEC_ARGS='$(if $(SPEC),,$(SIM_ARGS) $(addprefix --exclude spec/,ops/fuzz ops/names graph/sweep graph/export_step)) $(SPEC_ARGS)' check
# Some kernels are compiled again, so that their memory accesses are counted and checked for races.
COUNTED := $(BUILD)/counted
COUNTED_SRC := $(sort $(wildcard spec/cuda/counted/*.cu)) \
  $(addprefix kernels/cuda/,attention/attention.cu attention/few_queries.cu attention/grouped_queries.cu \
  attention/softmax.cu conv/conv.cu copy/copy.cu index/gather.cu index/nonzero.cu loss/cross_entropy.cu loss/ctc.cu matmul/gemm.cu norm/norm.cu \
  optim/list.cu optim/step.cu scan/scan_i64.cu sort/select.cu sort/sort.cu)
uncounted := $(COUNTED_SRC) $(addprefix kernels/cuda/,pointwise/pointwise_f32.cu reduce/reduce_f32.cu)
COUNTED_OBJ := $(COUNTED_SRC:%=$(COUNTED)/obj/%.o) \
  $(patsubst %,$(EMULATED)/obj/%.o,$(filter-out $(uncounted),$(EMULATED_SRC))) $(DEVICE_OBJ)
$(COUNTED)/obj/%.cu.o: %.cu $(OBJ)/flags.txt | $(GEN)/stamp
	$(call say,CXX,"$< (counted)")
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(emulate_cxx) -fsanitize=thread $(see_volatile) -D__CUDACC__ -include cuda_runtime.h -c -o $@ $<
see_volatile = $(shell $(CXX) --param=tsan-distinguish-volatile=1 -E -x c++ /dev/null >/dev/null 2>&1 && \
  echo --param=tsan-distinguish-volatile=1)
$(COUNTED)/tlua_cuda.so: $(COUNTED_OBJ)
	$(call say,LD,$@)
	$(Q)$(CXX) $(TL_LDFLAGS) -shared -Wl,-z,nodelete$(if $(SANITIZE),,$(comma)-z$(comma)defs) -o $@ $(COUNTED_OBJ) $(TL_LIBS)
# Reads which headers each object includes. The lists of the emulated GPU's objects are read only if
# it is being built, because .ci/run builds it while specs call make.
-include $(patsubst %.o,%.d,$(LIB_OBJ) $(MAIN_OBJ) $(SIM_OBJ) $(CUDA_OBJ) $(SPEC_OBJ) $(if $(filter $(EMULATED)/% $(COUNTED)/%,$(MAKECMDGOALS)),\
  $(EMULATED_OBJ) $(EMULATOR_OBJ) $(COUNTED_OBJ) $(EMULATED)/obj/spec/cuda/nccl/nccl.c.o))
traffic:
	@+$(MAKE) --no-print-directory CUDA=0 $(TLUA) $(COUNTED)/tlua_cuda.so
	@: >$(COUNTED)/log
	@TLUA_PLUGINS='$(abspath $(COUNTED))' TLUA_EMULATED_TRAFFIC=$(COUNTED)/log TLUA_EMULATED_COMPILER=1 \
	  TLUA_CACHE='$(abspath $(COUNTED))' $(TLUA) spec/cuda/traffic.lua

# Counts the instructions of some kernels for each element, in nvcc's PTX.
COUNTED_PTX := $(patsubst %.cu,$(COUNTED)/ptx/%.ptx,spec/cuda/counted/pointwise_f32.cu \
  $(addprefix kernels/cuda/,matmul/linear.cu conv/conv.cu optim/list.cu))
$(COUNTED)/ptx/%.ptx: %.cu $(OBJ)/cuda_flags.txt | $(GEN)/stamp
	$(call say,PTX,$<)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -std=c++17 -arch=compute_90 -ptx -Isrc -I. -I$(GEN) -o $@ $<
instructions: $(TLUA) $(COUNTED_PTX)
	@$(TLUA) spec/cuda/instructions.lua $(COUNTED_PTX)

# Runs kernels whose threads share memory, in 20 different orders of threads.
RACES = $(TLUA) spec/cuda/races.lua
SEEDS ?= $(shell seq 1 20)
races:
	@+$(MAKE) --no-print-directory CUDA=0 $(TLUA) $(COUNTED)/tlua_cuda.so
	@for seed in $(SEEDS); do TLUA_PLUGINS='$(abspath $(COUNTED))' TLUA_EMULATED_RACES=1 \
	  TLUA_EMULATED_MULTIPROCESSORS=1 TLUA_EMULATED_SEED=$$seed \
	  $(RACES) >$(COUNTED)/races.txt 2>&1 || { cat $(COUNTED)/races.txt; echo "seed $$seed"; exit 1; }; done
	@echo 'no races with the seeds $(SEEDS)'

host-cost:
	@+$(MAKE) --no-print-directory CUDA=0 $(TLUA) $(EMULATED)/tlua_cuda.so
	@TLUA_PLUGINS='$(abspath $(EMULATED))' TLUA_EMULATED_IDLE=1 $(TLUA) spec/bench/host_cost.lua

# Builds the programs that spec/cuda runs: the emulator's tests, with and without the address
# sanitizer, and the plugin that counts memory accesses.
.PHONY: emulator
emulator:
	@+$(MAKE) --no-print-directory CUDA=0 $(EMULATOR_TEST) $(COUNTED)/tlua_cuda.so
	@+$(call SANITIZING,asan,address$(comma)undefined) $(BUILD)/asan/emulated/emulator_test

ASAN_ENV = ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1 \
  LSAN_OPTIONS=suppressions=$(SUPPRESSIONS)/lsan.supp:print_suppressions=0 UBSAN_OPTIONS=print_stacktrace=1
# Left out are specs that run long and call no C code that other specs do not call too: examples,
# agents, whole models of vision, text and sound and their export, trainings in several processes,
# the names of Torch7, translated Python, and Lua code of packages that uses only operators, sockets
# and process groups.
WITHOUT_ASAN = spec/examples $(foreach name,$(notdir $(wildcard rocks/*)),rocks/$(name)/spec/examples) \
  $(filter-out $(addprefix rocks/torch7/spec/,image7_% t7_% threads7_%),$(wildcard rocks/torch7/spec/*.lua)) \
  $(addprefix rocks/,audio/spec/functional audio/spec/rnnt plot/spec text/spec/models \
  hub/spec/hub llm/spec/batch llm/spec/cache mlflow/spec/mlflow \
  onnx/spec/export rl/spec/agents serve/spec/command serve/spec/language serve/spec/versions text/spec/searches text/spec/tokenizer \
  vision/spec/models vision/spec/detection text/spec/finetune graphs/spec/hgt \
  $(addprefix trainer/spec/,lies other_ranks resume strategy sweep)) \
  $(foreach name,checkpoint context ddp elastic fsdp gpt launcher optim pipelining tensor,spec/dist/$(name)_spec) \
  spec/port spec/lua/strict spec/main/doctor
asan:
	@.ci/deps build test
	@+$(ASAN_ENV) $(call SANITIZED,asan,address$(comma)undefined,$(addprefix --exclude ,$(WITHOUT_ASAN)))

asan-build:
	@+$(call SANITIZING,asan,address$(comma)undefined) specs

# Memory blocks of the device have exactly the requested size, so that the sanitizer detects kernels
# that read past the end of a block. By default, only the misaligned cases of kernels_spec run.
emulated-asan:
	@.ci/deps build test
	@+$(call SANITIZING,asan,address$(comma)undefined) CUDA=0 $(BUILD)/asan/emulated/tlua_cuda.so \
	  $(BUILD)/asan/tlua_sim.so
	@ln -sf ../tlua_sim.so $(BUILD)/asan/emulated/tlua_sim.so
	@+$(ASAN_ENV) TLUA_CUDA_ALLOCATOR=driver TLUA_SPEC_DEVICE=cuda CUDA=0 \
	  TLUA_PLUGINS='$(abspath $(BUILD)/asan/emulated)' SPEC='$(or $(SPEC),spec/cuda/kernels_spec.lua)' \
	  FILTER='$(or $(FILTER),$(if $(SPEC),,misaligned))' $(call SANITIZED,asan,address$(comma)undefined)

# Left out are specs of Ctrl-C, because the thread sanitizer delays signals until the program makes
# a system call, operators_test, which has only one thread and takes long, and the notebook's
# kernel, because the sanitizer cannot see how libzmq synchronizes its threads.
tsan:
	@.ci/deps build test
	@+TSAN_OPTIONS=suppressions=$(SUPPRESSIONS)/tsan.supp:second_deadlock_stack=1 \
	  $(call SANITIZED,tsan,thread,--exclude spec/main/interrupt \
	  --exclude spec/main/terminal --exclude spec/lua/operators --exclude rocks/notebook/spec/kernel)

valgrind:
	@.ci/deps build test
	@$(MAKE) --no-print-directory SPEC_ARGS="--exclude spec/build $(SPEC_ARGS) --wrap \
	  'valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
	  --suppressions=$(SUPPRESSIONS)/valgrind.supp'" check

bench: all
	$(TLUA) spec/bench/bench.lua $(BENCH)

# Prints the registers and the shared memory of each kernel. Fails if a kernel needs more registers
# than there are.
registers: all
	@$(or $(LUA),$(BUILD)/host) spec/cuda/registers.lua $(patsubst %,%.txt,$(filter %.cu.o,$(CUDA_OBJ)))

# Compiles the host's code of the plugin with the headers of CUDA 12 and 13, which come from PyPI.
cuda-versions: $(GEN)/stamp
	@CC='$(CC)' .ci/cuda-versions $(BUILD) '$(or $(filter-out 0,$(CUDA)),none)'

# For a machine that has a GPU but neither Lua nor a compiler: the bundle contains .ci/gpu-check,
# which does the same there.
bundle: all
	@.ci/bundle $(BUILD)
gpu-check: all
	@.ci/gpu-check $(BUILD)
# Tests the script gpu-check itself on a short run. The bundle has an emulated GPU and a sanitizer
# that does nothing. There are three calls of at most 9 minutes, as the script is meant to be used.
DRY := $(BUILD)/dry
gpu-check-dry:
	@+$(MAKE) --no-print-directory CUDA=0 all $(EMULATED)/tlua_cuda.so
	@rm -rf $(DRY) && mkdir -p $(DRY)/gen $(DRY)/bin
	@cp $(TLUA) $(SIM_PLUGIN) $(EMULATED)/tlua_cuda.so $(DRY)/
	@cp $(GEN)/gradlist.lua $(GEN)/manual.lua $(DRY)/gen/
	@printf '%s\n' '#!/bin/sh' 'while case $$1 in --*) ;; *) false ;; esac; do shift 2; done' 'exec "$$@"' \
	  >$(DRY)/bin/compute-sanitizer && chmod +x $(DRY)/bin/compute-sanitizer
	@.ci/bundle $(DRY)
	@cd $(DRY)/bundle && for leave in 'GPU_BENCH=0 GPU_SANITIZER=0' 'GPU_SPECS=0 GPU_SANITIZER=0' \
	  'GPU_SPECS=0 GPU_BENCH=0'; do \
	  env $$leave PATH="$(abspath $(DRY))/bin:$$PATH" GPU_SHORT=1 GPU_SECONDS=540 \
	    TLUA_EMULATED_MEMORY=536870912 .ci/gpu-check . || exit 1; done

# Compares every operator with PyTorch, with the inputs of PyTorch's own tests. Then compares the
# simulated device with the CPU for the same inputs.
PYTHON ?= python3
OP ?=
opinfo: all
	$(PYTHON) spec/opinfo/calls.py $(BUILD)/opinfo $(OP)
	$(TLUA) spec/opinfo/run.lua $(BUILD)/opinfo $(OP)
	TLUA_SPEC_DEVICE=sim $(TLUA) spec/opinfo/run.lua $(BUILD)/opinfo $(OP)

modinfo: all
	$(PYTHON) spec/opinfo/modules.py $(BUILD)/modinfo
	$(TLUA) spec/opinfo/modules.lua $(BUILD)/modinfo $(OP)

# ---- linting ---------------------------------------------------------------------

C_FILES := $(sort $(wildcard src/*.h src/*/*.[ch] src/*/*/*.[ch] kernels/*.[ch] kernels/*/*.[ch] \
  kernels/*/*/*.[ch] kernels/*/*/*/*.[ch] $(addprefix kernels/cuda/,*.cuh */*.cu */*.cuh) \
  spec/*/*.[ch] spec/cuda/*.cc spec/cuda/*/*.h \
  spec/cuda/*/*.c[cu] spec/cuda/*/*/*.h rocks/*/*.[ch] examples/*/*.[ch] examples/*/*/*.[ch]))

lint:
	@.ci/deps lint
	@+mkdir -p $(BUILD); $(MAKE) --no-print-directory lint-lua >$(BUILD)/lint-lua.txt 2>&1 & lua=$$!; \
	passed=0 failed=0; for check in lint-format lint-c; do \
	  if $(MAKE) --no-print-directory $$check; then passed=$$((passed + 1)); \
	  else failed=$$((failed + 1)); fi; done; \
	  if wait $$lua; then passed=$$((passed + 1)); else failed=$$((failed + 1)); fi; \
	  cat $(BUILD)/lint-lua.txt; echo "$$passed passed, $$failed failed"; test $$failed = 0

lint-lua:
	luacheck --quiet --no-color .
lint-format:
	@echo clang-format --dry-run
	@clang-format --dry-run -Werror $(C_FILES)
# If a template is compiled for two widths of a type, only one of them is checked. Headers take most
# of the time, so all files of a folder of src are checked together.
CHECKED := $(BUILD)/cppcheck/folders
lint-c: $(GEN)/stamp
	@echo cppcheck
	@rm -rf $(CHECKED) && mkdir -p $(CHECKED) && for folder in $(sort $(dir $(filter src/%.c,$(C_FILES)))); do \
	  ls $$folder*.c | sed 's/.*/#include "&"/' >$(CHECKED)/$$(echo "$${folder%/}" | tr / _).c; done
	@cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
	  --suppressions-list=spec/support/cppcheck.supp --error-exitcode=1 -j $(JOBS) \
	  --cppcheck-build-dir=$(BUILD)/cppcheck -DLUA_VERSION_NUM=504 -DTLK_ISA=$(lastword $(ISAS)) -Isrc -I. -I$(GEN) \
	  $(CHECKED) $(filter-out %_f64.c %_i64.c %_c128.c,$(filter %.c,$(filter kernels/%,$(C_FILES))))

tidy-format:
	clang-format -i $(C_FILES)

# ---- documentation ---------------------------------------------------------------

# The built command writes the annotations for editors and the manual, since it knows all public
# names. A command for another machine cannot run here, so there they are missing.
REFERENCE := $(if $(CROSS),,$(if $(wildcard src/docs/main.lua),$(BUILD)/reference/tlua.lua $(BUILD)/reference/manual.md))
DOCS_SRC := $(wildcard src/docs/*) $(sort $(wildcard src/lua/types*.lua src/lua/*/types*.lua))

$(BUILD)/reference/manual.md: $(TLUA) $(DOCS_SRC)
	$(call say,DOCS,$(@D))
	$(Q)mkdir -p $(@D) && $(TLUA) src/docs/main.lua $(@D) $(GEN)
$(BUILD)/reference/tlua.lua: $(BUILD)/reference/manual.md

notes: $(TLUA)
	@$(TLUA) rocks/release.lua notes $(FROM)
DEB := $(abspath $(BUILD)/deb)
deb: all
	@rm -rf '$(DEB)'
	@+$(MAKE) --no-print-directory -o all install DESTDIR='$(DEB)/root' PREFIX=/usr STATIC=1 \
	  LIBDIR="/usr/lib/$$(dpkg-architecture -qDEB_HOST_MULTIARCH)" >/dev/null
	@$(TLUA) rocks/deb.lua '$(DEB)' $(VERSION)
rockspecs: $(TLUA)
	@mkdir -p $(BUILD)/$@ && $(TLUA) rocks/release.lua rockspecs $(VERSION) $(BUILD)/$@ && ls $(BUILD)/$@

docs:
	@.ci/deps build docs
	@$(MAKE) --no-print-directory $(BUILD)/docs/index.html
$(BUILD)/docs/index.html: $(TLUA) $(DOCS_SRC) $(shell find README.md src lua kernels rocks examples -name '*.md' 2>/dev/null)
	$(call say,DOCS,$(@D))
	$(Q)rm -rf $(@D) && mkdir -p $(@D) && $(TLUA) src/docs/main.lua $(@D) $(GEN) site

# ---- installing ------------------------------------------------------------------

# Installed programs and libraries are stripped. Most of the removed data is for debuggers; `make
# install-debug` installs it in separate files.
.PHONY: rock rock-install

LIBDIR ?= $(PREFIX)/lib
PCDIR ?= $(LIBDIR)/pkgconfig
LUA_CDIR ?= $(LIBDIR)/lua/5.4
# Recipes get folders through the environment, because names of folders may contain blanks, quotes
# and semicolons.
install install-debug uninstall: export AT_PREFIX = $(DESTDIR)$(PREFIX)
install install-debug uninstall: export AT_LIBDIR = $(DESTDIR)$(LIBDIR)
install install-debug uninstall: export AT_PCDIR = $(DESTDIR)$(PCDIR)
install install-debug uninstall: export AT_LUA_CDIR = $(DESTDIR)$(LUA_CDIR)
install install-debug uninstall: export BARE_LIBDIR = $(LIBDIR)
install install-debug uninstall: export BARE_DESTDIR = $(DESTDIR)

# There is no "Requires: lua", because a host names the Lua that it uses: `pkg-config --libs tlua
# lua5.4`.
define PC_TEXT
prefix=$(PREFIX)
libdir=$(LIBDIR)
includedir=$${prefix}/include

Name: tlua
Description: tensors and neural networks for Lua 5.4
Version: $(VERSION)
Cflags: -I"$${includedir}"
Libs: -L"$${libdir}" -ltlua
Libs.private: -pthread $(TL_LIBS)
endef
export PC_TEXT

# PACKAGES lists the packages of rocks/ to install: PACKAGES= installs none, PACKAGES="text plot"
# installs two. Their Lua files are installed below LUA_DIR, where `require` finds them in an
# interpreter with the same prefix.
PACKAGES ?= $(patsubst rocks/%/,%,$(sort $(wildcard rocks/*/)))
LUA_DIR ?= $(PREFIX)/share/lua/5.4
# Prints the paths of a package's modules in its folder. Specs and examples are not modules.
package_files = find . -name '*.lua' ! -path './spec/*' ! -path './examples/*' | sort
install install-debug uninstall: export AT_LUA_DIR = $(DESTDIR)$(LUA_DIR)

ifneq ($(PROFILE),)
install install-debug:
	@echo 'install: with PROFILE=$(PROFILE) there is $(STATIC_LIB), to be linked with src/tlua.h' >&2; exit 1
else
# Files for another machine need the `strip` of that machine's compiler.
strip_with := $(if $(CROSS),--strip-program='$(STRIP)')
install: all $(REFERENCE)
	@mkdir -p "$$AT_PREFIX/bin" "$$AT_PREFIX/include" "$$AT_PREFIX/share/tlua/types" "$$AT_PREFIX/share/doc/tlua" \
	  "$$AT_LIBDIR/tlua" "$$AT_LUA_CDIR" "$$AT_PCDIR"
	install -s $(strip_with) -m 755 $(TLUA) "$$AT_PREFIX/bin/tlua"
	install -m 644 src/tlua.h "$$AT_PREFIX/include/tlua.h"
	$(if $(filter-out 0,$(STATIC)),install -m 644 $(STATIC_LIB) "$$AT_LIBDIR/libtlua.a" && \
	  $(STRIP) --strip-unneeded "$$AT_LIBDIR/libtlua.a")
	install -s $(strip_with) -m 755 $(SHARED_LIB) "$$AT_LIBDIR/$(SONAME)"
	$(if $(PLUGINS),install -s $(strip_with) -m 755 $(PLUGINS) "$$AT_LIBDIR/tlua/")
	ln -sf $(SONAME) "$$AT_LIBDIR/libtlua.so"
	ln -sf "$$($(library_from_lua))/$(SONAME)" "$$AT_LUA_CDIR/tlua.so"
	@for name in $(PACKAGES); do \
	  test -f "rocks/$$name/init.lua" || { echo "install: PACKAGES: there is no package $$name" >&2; exit 1; }; \
	  echo "install rocks/$$name"; for folder in $$(cd "rocks/$$name" && $(package_files) | sed 's|/[^/]*$$||' | sort -u); do \
	  mkdir -p "$$AT_LUA_DIR/tlua/$$name/$$folder" && \
	  install -m 644 "rocks/$$name/$$folder"/*.lua "$$AT_LUA_DIR/tlua/$$name/$$folder/" || exit 1; done; done
	$(if $(SERVE_MODULE),$(if $(filter serve,$(PACKAGES)),mkdir -p "$$AT_LUA_CDIR/tlua/serve" && \
	  install -s $(strip_with) -m 755 $(SERVE_MODULE) "$$AT_LUA_CDIR/tlua/serve/http.so"))
	$(if $(REFERENCE),@for name in tlua $(PACKAGES); do ! test -f "$(BUILD)/reference/$$name.lua" || \
	  install -m 644 "$(BUILD)/reference/$$name.lua" "$$AT_PREFIX/share/tlua/types/" || exit 1; done)
	$(if $(REFERENCE),gzip -9nc $(BUILD)/reference/manual.md >"$$AT_PREFIX/share/doc/tlua/manual.md.gz" && \
	  rm -f "$$AT_PREFIX/share/doc/tlua/manual.md")
	install -m 644 LICENSE "$$AT_PREFIX/share/doc/tlua/"
	@! test -f $(BUILD)/docs/index.html || { mkdir -p "$$AT_PREFIX/share/doc/tlua/html" && \
	  install -m 644 $(BUILD)/docs/* "$$AT_PREFIX/share/doc/tlua/html/"; }
	@printf '%s\n' "$$PC_TEXT" >"$$AT_PCDIR/tlua.pc"
	@test -n "$$BARE_DESTDIR" || test "$$(id -u)" != 0 || ldconfig 2>/dev/null || true
endif

# Puts symbols for debuggers in a folder .debug beside each program and library, where gdb searches
# for them.
keep_debug = mkdir -p "$(2)/.debug" && $(OBJCOPY) --only-keep-debug $(1) "$(2)/.debug/$(3).debug" && \
  $(OBJCOPY) --add-gnu-debuglink="$(2)/.debug/$(3).debug" "$(2)/$(3)"
ifeq ($(PROFILE),)
install-debug: install
	$(call keep_debug,$(TLUA),$$AT_PREFIX/bin,tlua)
	$(call keep_debug,$(SHARED_LIB),$$AT_LIBDIR,$(SONAME))
	@$(foreach plugin,$(PLUGINS),$(call keep_debug,$(plugin),$$AT_LIBDIR/tlua,$(notdir $(plugin))) &&) true
endif

# Prints sizes in millions of bytes, and fails if one exceeds its limit. The library is the one of
# this build, with all of its instruction sets. The packages of rocks/ are counted separately,
# without a limit, because users choose among them (PACKAGES), while everything else is always
# installed.
SIZED := $(abspath $(BUILD)/size)
MOST_TEXT := 7
MOST_INSTALLED := 18
# PTX that is not optimised is larger, so its limit is higher.
MOST_CUDA := $(if $(filter 0,$(PTX_ONLY)),30,90)
within = awk '{printf "%6.2f MB  $(1), at most $(2)\n", $$1 / 1e6; exit $$1 > $(2) * 1e6}'
size: all
	@rm -rf '$(SIZED)'
	@+$(MAKE) --no-print-directory -o all install DESTDIR= PREFIX='$(SIZED)' LIBDIR='$(SIZED)/lib' >/dev/null
	@cd '$(SIZED)' && find . -type f -size +1000 -exec wc -c {} \; | sort -rn | \
	  awk '{printf "%9.1f MB  %s\n", $$1 / 1e6, $$2}'
	@$(if $(CUDA_PLUGIN),wc -c <'$(SIZED)/lib/tlua/$(notdir $(CUDA_PLUGIN))' | \
	  $(call within,the GPU plugin for $(CUDA_ARCH),$(MOST_CUDA)) && rm '$(SIZED)/lib/tlua/$(notdir $(CUDA_PLUGIN))')
	@for name in $(PACKAGES); do for part in 'lua/5.4/tlua/'$$name 'tlua/types/'$$name.lua; do \
	  ! test -e '$(SIZED)/share/'$$part || { du -sk '$(SIZED)/share/'$$part && rm -rf '$(SIZED)/share/'$$part; }; done; done | \
	  awk '{all += $$1} END {printf "%6.2f MB  the packages of rocks/\n", all * 1024 / 1e6}'
	@du -sk '$(SIZED)' | awk '{print $$1 * 1024}' | \
	  $(call within,an installation without the GPU plugin and the packages,$(MOST_INSTALLED))
	@rm -rf '$(SIZED)'
	@size $(SHARED_LIB) | sed -n 2p | $(call within,text of the library ($(ISAS)),$(MOST_TEXT))

# Writes the types and functions of src/tlua.h, as they are in the compiled library, to
# src/tlua.abi. spec/build/abi_spec.lua compares later builds with this file.
ABIDW := abidw --exported-interfaces-only --header-file src/tlua.h --drop-private-types --no-corpus-path \
  --no-comp-dir-path --no-show-locs
abi: $(SHARED_LIB)
	$(ABIDW) $(SHARED_LIB) >src/tlua.abi

# Builds a library that only runs trained models, and prints the size of a program that consists of
# this library, Lua and a model's script. The target is separate, because CI builds it before its
# spec runs.
MOST_INFER := 1.5
infer-build:
	@+$(MAKE) --no-print-directory PROFILE=infer BUILD=$(BUILD)/infer CUDA=0 all
infer: infer-build
	@$(STRIP) -o $(BUILD)/infer/digits.stripped $(BUILD)/infer/digits
	@wc -c <$(BUILD)/infer/digits.stripped | $(call within,a program that reads digits,$(MOST_INFER))
	@+$(MAKE) --no-print-directory CUDA=0 SPEC=spec/profiles check

# Builds a library that runs only one program of torch.export. Prints the size of a C program that
# loads and runs it, linked with --gc-sections.
runtime:
	@+$(MAKE) --no-print-directory PROFILE=runtime BUILD=$(BUILD)/runtime CUDA=0 PROGRAM='$(abspath $(PROGRAM))' all \
	  $(BUILD)/runtime/answer
	@$(STRIP) -o $(BUILD)/runtime/answer.stripped $(BUILD)/runtime/answer
	@printf '  %s: %s bytes, stripped, with %s\n' $(BUILD)/runtime/answer.stripped \
	  "$$(wc -c <$(BUILD)/runtime/answer.stripped)" $(BUILD)/runtime/libtlua.a

# Tests programs with a sanitizer, in a library that contains only these programs. Runs ROUNDS
# mutated files of each program, or runs programs in several threads.
ROUNDS ?= 2000
define sanitized_programs
@rm -rf $(BUILD)/$(1)/programs && mkdir -p $(BUILD)/$(1)/programs && \
  $(TLUA) spec/core/program_models.lua $(BUILD)/$(1)/programs
@+$(MAKE) --no-print-directory PROFILE=runtime BUILD=$(BUILD)/$(1) CUDA=0 SANITIZE=$(2) CFLAGS='-O1 -g' \
  ISA=$(or $(filter $(HERE_ISA),$(ISAS)),$(firstword $(ISAS))) PROGRAM="$$(echo $(abspath $(BUILD))/$(1)/programs/*.tlp)" $(BUILD)/$(1)/program_test
@TLUA_PROGRAMS=$(BUILD)/$(1)/programs $(3) $(BUILD)/$(1)/program_test
endef
fuzz-programs: $(TLUA)
	$(call sanitized_programs,fuzz,address$(comma)undefined,TLUA_FUZZ=$(ROUNDS))
# Runs a process for each seed. spec/embed/fuzz.lua writes the scripts.
fuzz-scripts:
	@+$(call SANITIZING,asan,address$(comma)undefined) CUDA=0 $(BUILD)/asan/spec/embed/fuzz
	@printf '%s\n' $(SEEDS) | $(ASAN_ENV) xargs -P $(JOBS) -I SEED $(BUILD)/asan/spec/embed/fuzz SEED $(ROUNDS)
race-programs: $(TLUA)
	$(call sanitized_programs,race,thread,TLUA_FUZZ=20 TSAN_OPTIONS=suppressions=$(SUPPRESSIONS)/tsan.supp)

# Prints the path from LUA_CDIR to LIBDIR. If LUA_CDIR is LIBDIR or a folder below it, the path is
# relative, so that the installation can be moved; otherwise it is LIBDIR itself.
define library_from_lua
case "$$AT_LUA_CDIR/" in \
  "$$AT_LIBDIR"/*) printf '%s\n' "$${AT_LUA_CDIR#"$$AT_LIBDIR"}" | sed 's|//*|/|g; s|/$$||; s|/[^/]*|/..|g; s|^/||; s|^$$|.|' ;; \
  *) printf '%s\n' "$$BARE_LIBDIR" ;; \
esac
endef

uninstall:
	rm -f "$$AT_PREFIX/bin/tlua" "$$AT_PREFIX/include/tlua.h" "$$AT_LIBDIR/libtlua.a" "$$AT_LIBDIR/libtlua.so" \
	  "$$AT_LIBDIR/$(SONAME)" "$$AT_LIBDIR/tlua/tlua_sim.so" "$$AT_LIBDIR/tlua/tlua_cuda.so" \
	  "$$AT_LIBDIR/tlua/tlua_mpi_openmpi.so" "$$AT_LIBDIR/tlua/tlua_mpi_mpich.so" "$$AT_LUA_CDIR/tlua.so" \
	  "$$AT_PCDIR/tlua.pc" "$$AT_PREFIX/share/doc/tlua/manual.md" "$$AT_PREFIX/share/doc/tlua/manual.md.gz" \
	  "$$AT_PREFIX/share/doc/tlua/LICENSE"
	rm -rf "$$AT_PREFIX/bin/.debug/tlua.debug" "$$AT_LIBDIR/.debug/$(SONAME).debug" "$$AT_LIBDIR/tlua/.debug"
	@rmdir "$$AT_PREFIX/bin/.debug" "$$AT_LIBDIR/.debug" 2>/dev/null || true
	@rm -f "$$AT_PREFIX/share/tlua/types/tlua.lua" "$$AT_LUA_CDIR/tlua/serve/http.so"
	@rmdir "$$AT_LUA_CDIR/tlua/serve" "$$AT_LUA_CDIR/tlua" 2>/dev/null || true
	@for folder in rocks/*/; do name=$$(basename "$$folder"); rm -f "$$AT_PREFIX/share/tlua/types/$$name.lua"; \
	  ! test -d "$$AT_LUA_DIR/tlua/$$name" || { (cd "rocks/$$name" && $(package_files)) | \
	  (cd "$$AT_LUA_DIR/tlua/$$name" && xargs rm -f); }; \
	  ! test -d "$$AT_LUA_DIR/tlua/$$name" || find "$$AT_LUA_DIR/tlua/$$name" -depth -type d -empty -delete; done
	@rmdir "$$AT_LUA_DIR/tlua" "$$AT_LUA_DIR" "$${AT_LUA_DIR%/*}" 2>/dev/null || true
	rm -rf "$$AT_PREFIX/share/doc/tlua/html"
	@rmdir "$$AT_LIBDIR/tlua" "$$AT_PREFIX/share/tlua/types" "$$AT_PREFIX/share/tlua" "$$AT_PREFIX/share/doc/tlua" 2>/dev/null || true

# These targets are for LuaRocks, which sets LUA, LUA_INCDIR and the folder for C modules.
rock: $(SHARED_LIB) $(PLUGINS)
rock-install: export AT_LIBDIR = $(INST_LIBDIR)
rock-install:
	@mkdir -p "$$AT_LIBDIR/tlua"
	install -s $(strip_with) -m 755 $(SHARED_LIB) "$$AT_LIBDIR/tlua.so"
	$(if $(PLUGINS),install -s $(strip_with) -m 755 $(PLUGINS) "$$AT_LIBDIR/tlua/")
