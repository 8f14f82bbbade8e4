-- cd rocks/torch7 && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-torch7"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Torch7's layers and methods, for programs that come from there",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.torch7"] = "init.lua",
      ["tlua.torch7.arithmetic"] = "arithmetic.lua",
      ["tlua.torch7.containers"] = "containers.lua",
      ["tlua.torch7.methods"] = "methods.lua",
      ["tlua.torch7.mode"] = "mode.lua",
      ["tlua.torch7.shapes"] = "shapes.lua",
      ["tlua.torch7.tables"] = "tables.lua",
   },
}
