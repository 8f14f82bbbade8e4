# runtime.mk - lists the parts of the library that `make runtime PROGRAM='model.tlp ...'` builds: a
# library that runs these programs of torch.export (tl_program_load and related functions of
# tlua.h). It has only the programs' operators, and no Lua, process groups or OpenBLAS. It has
# derivatives if one of the programs is a training step.
PROGRAM ?= $(error runtime: name the program: make runtime PROGRAM=model.tlp)

# Each of these variables reads the program at its first use, because LUA is set only after this
# file. Later uses get the stored value.
read_program = $(or $(shell $(or $(LUA),$(error runtime: no Lua was found to read $(PROGRAM); set LUA)) \
  src/gen/runtime.lua $(1) $(PROGRAM)),$(error runtime: $(PROGRAM) was not read))
OPS = $(eval OPS := $$(call read_program,ops))$(OPS)
BASE_FAMILIES = $(eval BASE_FAMILIES := $$(call read_program,families))$(BASE_FAMILIES)
MODE = $(eval MODE := $$(call read_program,mode))$(MODE)
KERNEL_FAMILIES :=
INFER_LUA :=
INFER_LUA_NOT :=
