-- luarocks --lua-version 5.4 make rocks/tlua-0.9.0-1.rockspec
rockspec_format = "3.0"
package = "tlua"
version = "0.9.0-1"
source = {url = "git+file://.", tag = "v0.9.0"}
description = {
   summary = "Tensors, automatic differentiation and neural networks",
   detailed = "Lua with tensors as first-class values, in the manner of PyTorch. "
      .. "Building needs a C compiler and make; OpenBLAS is looked for at run time.",
   license = "MIT",
}
dependencies = {"lua ~> 5.4"}
build = {
   type = "make",
   -- A build folder of its own leaves the one that people work in as it is.
   build_target = "rock",
   build_variables = {
      BUILD = "build/rock", WERROR = "0", CFLAGS = "$(CFLAGS)",
      LUA = "$(LUA)", LUA_INCDIR = "$(LUA_INCDIR)",
   },
   install_target = "rock-install",
   install_variables = {BUILD = "build/rock", INST_LIBDIR = "$(LIBDIR)"},
}
