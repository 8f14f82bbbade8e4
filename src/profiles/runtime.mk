# runtime.mk - what `make runtime PROGRAM='model.tlp ...'` keeps: a library that runs programs of
# torch.export with these operators (tl_program_load and its like of tlua.h), without Lua,
# process groups and OpenBLAS. It has derivatives if one of the programs is a training step.
PROGRAM ?= $(error runtime: name the program: make runtime PROGRAM=model.tlp)

# Reads the program, once: LUA is known only after this file.
read_program = $(or $(shell $(or $(LUA),$(error runtime: no Lua was found to read $(PROGRAM); set LUA)) \
  src/gen/runtime.lua $(1) $(PROGRAM)),$(error runtime: $(PROGRAM) was not read))
OPS = $(eval OPS := $$(call read_program,ops))$(OPS)
BASE_FAMILIES = $(eval BASE_FAMILIES := $$(call read_program,families))$(BASE_FAMILIES)
MODE = $(eval MODE := $$(call read_program,mode))$(MODE)
KERNEL_FAMILIES :=
INFER_LUA :=
INFER_LUA_NOT :=
